"""The short way to the routes that answer questions.

FastAPI finds a route, resolves its dependencies and opens several contexts for each request, which costs more than the
rest of serving a question. A request with a valid body can do without all that. Every other request goes the long way,
so that each error is found and told in one place.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beliefrag.web.problems import HttpProblem

__all__ = ["DirectRoutes"]

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class _DirectRoute:
    route: APIRoute
    body: type[BaseModel]
    handle: Callable[[Request, BaseModel], Awaitable[Response]]


class DirectRoutes:
    """Middleware that calls the handler of a question itself where the body is valid, and passes on everything else.

    It must be the innermost, behind the one that has read the whole body.

    Args:
        app: The application with all routes.
        routes: Routes for POST whose handlers take a request and a body.
        respond: Gives the response to a problem that a handler raises.
    """

    def __init__(
        self, app: ASGIApp, *, routes: Iterable[APIRoute], respond: Callable[[Request, HttpProblem], Response]
    ) -> None:
        self._app = app
        self._respond = respond
        self._routes = {route.path: _read_route(route) for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a question, or passes the request on."""
        direct = self._routes.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if direct is None or Headers(scope=scope).get("content-type", "").partition(";")[0].strip() != _JSON:
            await self._app(scope, receive, send)
            return
        message = await receive()
        try:
            body = direct.body.model_validate(json.loads(message.get("body", b"")))
        except (ValueError, ValidationError, RecursionError):
            await self._app(scope, _receive_again(message, receive), send)
            return
        # The log names the route by its pattern.
        scope["route"] = direct.route
        request = Request(scope, receive)
        try:
            response = await direct.handle(request, body)
        except HttpProblem as problem:
            response = self._respond(request, problem)
        await response(scope, receive, send)


def _read_route(route: APIRoute) -> _DirectRoute:
    kind = inspect.get_annotations(route.endpoint, eval_str=True)["body"].__origin__
    return _DirectRoute(route, kind, route.endpoint)


def _receive_again(message: Message, receive: Receive) -> Receive:
    unread = [message]

    async def receive_again() -> Message:
        return unread.pop() if unread else await receive()

    return receive_again
