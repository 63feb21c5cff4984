"""Notices that a client has left, and ends streams that would otherwise never end.

Since the protocol of 2026-07-28, closing the response cancels a call, and the library sees to it. Earlier protocols
leave a call running when its stream breaks, so that it can be taken up again; without a store of past events, which we
do not keep, nobody can, and the model would be paid for nothing. So here a broken stream ends the call for all.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Leaving", "departure"]

_KEY = "beliefrag.gone"


class Leaving:
    """Middleware that notes when the client of a request is gone, and can end the streams that wait for nothing.

    Args:
        app: What serves MCP.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Ends the streams on which a client waits for messages of the server, that is, all that are no call."""
        self._closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        gone = scope[_KEY] = asyncio.Event()

        async def listening() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        if scope["method"] == "GET":
            await self._until_closed(scope, listening, send)
        else:
            await self._app(scope, listening, send)

    async def _until_closed(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        stream = asyncio.ensure_future(self._app(scope, receive, sending))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({stream, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            cut = not stream.done()
            for task in (stream, closing):
                task.cancel()
            await asyncio.gather(stream, closing, return_exceptions=True)
        if not cut:
            stream.result()
        elif begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def departure(request: Any) -> Receive:
    """What waits until the client of a call is gone; over stdio, where closing the pipe ends everything, for ever."""
    scope = getattr(request, "scope", {})
    gone: asyncio.Event = scope.get(_KEY) or asyncio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    return receive
