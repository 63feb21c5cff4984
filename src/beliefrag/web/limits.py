"""What a server accepts at most: the limits, and the middleware that reads a request's body within them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beliefrag.errors import SettingsError
from beliefrag.types import Budget
from beliefrag.web.problems import HttpProblem
from beliefrag.web.request_log import refuse, request_record

__all__ = ["BodyLimit", "ServerLimits"]

_MAY_BE_ZERO = frozenset({"queue", "grace"})


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds on every request, so that no client can use more than its share."""

    request_bytes: int = 65_536
    question_chars: int = 4_000
    concurrency: int = 4
    """How many episodes run at a time."""
    queue: int = 16
    """How many requests may wait; further ones are refused."""
    timeout: float = 120.0
    """Seconds that an episode may take. The wait for its turn does not count."""
    grace: float = 30.0
    """Seconds that running episodes are given at shutdown."""
    heartbeat: float = 15.0
    """Seconds of silence in a stream after which a comment keeps the connection alive, and those between two news of
    the queue."""
    body_seconds: float = 10.0
    """Seconds within which a request's body must have arrived."""
    connections: int = 1_000
    """How many connections may be open; never more than half of the files that the process may open."""
    connections_per_client: int = 256
    """How many of them may be from one address."""
    header_seconds: float = 10.0
    """Seconds within which the next request's header must have arrived on an open connection."""
    stall_seconds: float = 30.0
    """Seconds after which a client that does not read its response is disconnected."""
    sessions: int = 256
    """How many MCP sessions of earlier protocols may be open."""
    session_idle_seconds: float = 300.0
    """Seconds after which an MCP session without a request ends."""
    budget: Budget = Budget()
    """The most that a request may ask for."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "budget" and (value < 0 or (value == 0 and field.name not in _MAY_BE_ZERO)):
                raise SettingsError(f"The limit {field.name} cannot be {value}.", remedy="Give a number above 0.")


class BodyLimit:
    """Middleware that reads the whole body first and stops as soon as it is too long or too slow.

    The header Content-Length is used only to refuse early. A chunked body has none, so the bytes are counted as well.

    Args:
        app: The application that gets the body.
        limits: How long the body may be, in bytes and in seconds.
    """

    def __init__(self, app: ASGIApp, *, limits: ServerLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read_body(Headers(scope=scope), receive)
        except HttpProblem as problem:
            await refuse(scope, problem)(scope, receive, send)
            return
        if body is None:
            request_record(scope).client_left = True
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, receive_again, send)

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes | None:
        """Return the body; None if the client left before it had arrived."""
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self._limits.request_bytes:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > self._limits.request_bytes:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise HttpProblem(
                408,
                "slow_request",
                f"The body did not arrive within {self._limits.body_seconds:g} seconds.",
                headers={"Connection": "close"},
            ) from None

    def _too_large(self) -> HttpProblem:
        return HttpProblem(
            413,
            "too_large",
            f"The body has more than {self._limits.request_bytes:,} bytes.",
            headers={"Connection": "close"},
        )
