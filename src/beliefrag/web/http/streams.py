"""Server-sent events: a response that is written while the episode is played, and ends the episode if nobody reads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from beliefrag.events import Event, Finished
from beliefrag.web.http.note import note_of
from beliefrag.web.http.running import ClientGone, Running

__all__ = ["HEARTBEAT", "EpisodeStream", "as_sent", "first_event", "heard"]

HEARTBEAT = b": still here\n\n"
"""A comment: clients pass it over, and proxies see that the connection is alive."""


def as_sent(data: dict[str, Any] | str, *, name: str | None = None, number: int | None = None) -> bytes:
    """One event as bytes."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    head = [f"id: {number}"] if number is not None else []
    head += [f"event: {name}"] if name else []
    return "\n".join([*head, f"data: {text}", "", ""]).encode("ascii")


async def first_event(running: Running) -> Event:
    """Waits until the episode has begun. Before that, a refusal can still be a status; afterwards it cannot."""
    try:
        return await running.next()
    except BaseException:
        await running.__aexit__(None, None, None)
        raise


async def heard(running: Running, first: Event, heartbeat: float) -> AsyncIterator[Event | None]:
    """The events of an episode, with None where there was silence for so many seconds.

    Raises:
        ClientGone: The client left.
        Problem: The episode was broken off.
    """
    event: Event | None = first
    while True:
        yield event
        if isinstance(event, Finished):
            return
        try:
            event = await running.next(heartbeat)
        except TimeoutError:
            event = None


class EpisodeStream(Response):
    """Sends what an iterator yields, each piece at once, and ends the episode when it stops sending.

    Args:
        running: The episode.
        pieces: What to send, made from its events.
    """

    media_type = "text/event-stream"

    def __init__(self, running: Running, pieces: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._running = running
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response."""
        async with self._running:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                async for piece in self._pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except ClientGone:
                note_of(scope).gone = True
                return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
