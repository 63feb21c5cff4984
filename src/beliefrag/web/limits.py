"""What a server accepts at most, and the middleware that reads a request's body within these limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beliefrag.types import Budget
from beliefrag.web.problems import HttpProblem
from beliefrag.web.request_log import ClientDisconnected, refuse


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds on every request: no client can use more than its share."""

    request_bytes: int = 65_536
    question_chars: int = 4_000
    concurrency: int = 4
    queue: int = 16
    """How many requests may wait; further ones are refused."""
    timeout: float = 120.0
    """Seconds for an episode; the wait for its turn does not count."""
    grace: float = 30.0
    """Seconds for running episodes at shutdown."""
    heartbeat: float = 15.0
    """Seconds of silence after which a stream gets a comment."""
    body_seconds: float = 10.0
    connections: int = 1_000
    """How many connections may be open; never more than half of the files that the process may open."""
    connections_per_client: int = 256
    header_seconds: float = 10.0
    """Seconds for the next request's header on an open connection."""
    stall_seconds: float = 30.0
    """Seconds after which a client that does not read its response is disconnected."""
    budget: Budget = Budget()
    """The most that a request may ask for."""


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """Middleware that reads the whole body first, and refuses one that is too long or too slow."""

    app: ASGIApp
    limits: ServerLimits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request with its body, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limits = self.limits
        try:
            async with asyncio.timeout(limits.body_seconds):
                body = await self._read_body(Headers(scope=scope).get("content-length", ""), receive)
        except (HttpProblem, TimeoutError) as error:
            words = f"The body did not arrive within {limits.body_seconds:g} seconds."
            problem = error if isinstance(error, HttpProblem) else HttpProblem(408, "slow_request", words)
            problem.headers = {"Connection": "close"}
            await refuse(scope, problem)(scope, receive, send)
            return
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return unread.pop() if unread else await receive()

        await self.app(scope, receive_again, send)

    async def _read_body(self, announced: str, receive: Receive) -> bytes:
        most = self.limits.request_bytes
        body = bytearray()
        # The announced length only serves to refuse early: a chunked body has none.
        length = int(announced[:20]) if announced.isdecimal() else 0
        while max(len(body), length) <= most:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            body += message.get("body", b"")
            if not message.get("more_body", False) and len(body) <= most:
                return bytes(body)
        raise HttpProblem(413, "too_large", f"The body has more than {most:,} bytes.")
