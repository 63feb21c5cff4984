"""Puts the HTTP server together: the routes, and around them the middleware in the order that protects them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache, partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from beliefrag._version import __version__
from beliefrag.web.auth import AllowedHosts, BearerToken, Credential, ServerAuth
from beliefrag.web.health import health_routes
from beliefrag.web.http.ask_route import ask_routes
from beliefrag.web.http.chat import chat_routes
from beliefrag.web.http.context import HttpContext
from beliefrag.web.http.responses import responses_routes
from beliefrag.web.limits import BodyLimit
from beliefrag.web.problems import HttpProblem, OpenAIErrorBody, ProblemBody, is_openai_path
from beliefrag.web.reload import reload_routes
from beliefrag.web.request_log import RequestLog, refuse

__all__ = ["HttpContext", "create_app"]

_DESCRIPTION = (
    "Answers questions from documents: searches only as much as a question needs, says how sure it is and why it "
    "stopped, and declines when it should."
)


def create_app(
    context: HttpContext,
    *,
    token: str | None = None,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
    serve_metrics: bool = False,
    credential: Credential | None = None,
) -> FastAPI:
    """Create the server as an ASGI application.

    From the outside in: the log, so that refused requests are logged too; the authentication, so that a body is read
    only for clients with the token; the body limit, so that no handler gets a body that is too long; the routes.

    Args:
        context: What the routes share.
        token: The bearer token; None lets everybody in.
        host: The address that it will listen at.
        allowed_hosts: More names by which clients may call it.
        serve_metrics: Whether there is `/metrics`.
        credential: What clients must show in place of the bearer token alone, for a server with a page.
    """
    service, metrics = context.service, context.metrics

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await service.aclose()

    app = FastAPI(
        title="BeliefRAG",
        description=_DESCRIPTION,
        version=__version__,
        lifespan=lifespan,
        # FastAPI's pages load scripts from other servers; the document itself is enough.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    routers = [ask_routes(context), chat_routes(context), responses_routes(context), health_routes(service)]
    if context.docs or context.index:
        routers.append(reload_routes(service, context.docs, context.index))
    for router in routers:
        app.include_router(router)
    if serve_metrics:

        @app.get("/metrics", include_in_schema=False)
        async def show_metrics() -> Response:
            return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    if context.page is not None:
        from beliefrag.web.page import page_routes  # noqa: PLC0415 (slow to load)
        from beliefrag.web.view.view_app import create_view_app  # noqa: PLC0415 (slow to load)

        app.include_router(page_routes(context.page, service))
        # Last, because it takes all addresses that are left: those of the viewer.
        app.mount("/", create_view_app(context.page.episodes))
    app.add_exception_handler(HttpProblem, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid_body)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_middleware(BodyLimit, limits=service.limits)
    hosts = AllowedHosts.for_address(host, allowed_hosts)
    app.add_middleware(ServerAuth, credential=credential or BearerToken(token), hosts=hosts)
    app.add_middleware(RequestLog, metrics=metrics)
    # Made when it is first asked for: a server should not begin later for it.
    complete = cache(partial(_complete_openapi, app.openapi, needs_token=token is not None))
    app.openapi = complete  # type: ignore[method-assign]
    return app


def _respond(request: Request, problem: HttpProblem) -> Response:
    if problem.status == 422 and is_openai_path(request.url.path):
        problem.status = 400  # what OpenAI's API answers for a value that it cannot use
    return refuse(request.scope, problem)


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpProblem)
    return _respond(request, error)


async def _on_invalid_body(request: Request, error: Exception) -> Response:
    """Names the first mistake in a body. The value that was sent is not sent back."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:]) or None
    if first["type"] == "json_invalid":
        return _respond(request, HttpProblem(400, "no_json", "The body is not JSON."))
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if first["loc"][0] == "body" and kind != "application/json":
        # FastAPI reads JSON only under its own content type.
        words = f"The header Content-Type is {'missing' if not kind else 'not application/json'}."
        return _respond(request, HttpProblem(415, "no_json", words, remedy="Send Content-Type: application/json."))
    return _respond(request, HttpProblem(422, "invalid", f"{first['msg']}.", field=field))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "wrong_method"}.get(error.status_code, "http")
    return _respond(request, HttpProblem(error.status_code, code, f"{error.detail}.", headers=error.headers or {}))


def _complete_openapi(make: Callable[[], dict[str, Any]], *, needs_token: bool) -> dict[str, Any]:
    """Add our error bodies and the token to FastAPI's OpenAPI document and remove FastAPI's own error body."""
    document = make()
    schemas: dict[str, Any] = document["components"]["schemas"]
    for body in (ProblemBody, OpenAIErrorBody):
        schema = body.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[body.__name__] = schema
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
            if needs_token and not path.endswith(("/healthz", "/readyz")):
                operation["security"] = [{"token": []}]
    if needs_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return document
