"""Reads a request's body within its limit, so that nobody can fill the memory or hold a connection for nothing."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beliefrag.web.http.limits import Limits
from beliefrag.web.http.note import note_of
from beliefrag.web.http.problems import Problem

__all__ = ["BodyLimit"]


class BodyLimit:
    """Middleware that reads the whole body first, and stops reading where it becomes too long.

    What a client says about the length is believed only where it speaks against it: a chunked body says nothing.

    Args:
        app: What gets the body.
        limits: How long it may be, in bytes and in seconds.
    """

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on with its body, or answers it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note = note_of(scope)
        try:
            body = await self._read(Headers(scope=scope), receive)
        except Problem as problem:
            note.refused = problem.code
            await problem.response(scope["path"], note.request_id)(scope, receive, send)
            return
        if body is None:
            note.gone = True
            return
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, replay, send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """The body; None if the client left before it was there."""
        said = headers.get("content-length", "")
        if said.isdecimal() and int(said[:20]) > self._limits.request_bytes:
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
            raise Problem(
                408,
                "slow_request",
                f"The body was not there within {self._limits.body_seconds:g} seconds.",
                headers={"Connection": "close"},
            ) from None

    def _too_large(self) -> Problem:
        return Problem(
            413,
            "too_large",
            f"The body has more than {self._limits.request_bytes:,} bytes.",
            headers={"Connection": "close"},
        )
