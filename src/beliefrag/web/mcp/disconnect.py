"""Notices that a client has left, and ends streams that would otherwise never end.

Since the protocol of 2026-07-28, closing the response cancels a call, and the library does so. In earlier protocols a
call goes on when its stream breaks, so that the client can resume it. That needs a store of past events, which this
server does not keep, so nobody could resume and the model would be paid for nothing. Here a broken stream always ends
the call.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["DisconnectMonitor", "disconnect_of"]

_SCOPE_KEY = "beliefrag.disconnected"


class DisconnectMonitor:
    """Middleware that notices when the client of a request leaves, and can end the streams that carry no call.

    Args:
        app: What serves MCP.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._closing = asyncio.Event()

    def close_idle_streams(self) -> None:
        """End the streams on which clients only wait for messages of the server."""
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        disconnected = scope[_SCOPE_KEY] = asyncio.Event()

        async def receive_and_notice() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                disconnected.set()
            return message

        if scope["method"] == "GET":
            await self._stream_until_closed(scope, receive_and_notice, send)
        else:
            await self._app(scope, receive_and_notice, send)

    async def _stream_until_closed(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_and_notice(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        stream = asyncio.ensure_future(self._app(scope, receive, send_and_notice))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({stream, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            interrupted = not stream.done()
            for task in (stream, closing):
                task.cancel()
            await asyncio.gather(stream, closing, return_exceptions=True)
        if not interrupted:
            stream.result()
        elif started:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def disconnect_of(request: Any) -> Receive:
    """Return a channel that waits until the client of a call has left. Over stdio, closing the pipe ends everything."""
    scope = getattr(request, "scope", {})
    disconnected: asyncio.Event = scope.get(_SCOPE_KEY) or asyncio.Event()

    async def receive() -> Message:
        await disconnected.wait()
        return {"type": "http.disconnect"}

    return receive
