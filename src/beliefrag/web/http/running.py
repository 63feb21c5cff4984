"""An episode that a client waits for: ends when the episode ends, and is cancelled when the client is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Self

from starlette.types import Receive

from beliefrag.events import Event

__all__ = ["ClientGone", "Running"]

Play = Callable[[Callable[[Event], None]], Coroutine[None, None, None]]


class ClientGone(Exception):
    """Nobody is there any more to be answered."""


class Running:
    """Plays an episode beside the handler of a request. Leaving the context cancels it and waits until it is gone.

    Args:
        play: Plays the episode; calls what it is given with each event.
        receive: The request's channel, its body already read: the next message says that the client has left.
    """

    def __init__(self, play: Play, receive: Receive) -> None:
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._play = asyncio.create_task(play(self._events.put_nowait))
        self._gone = asyncio.create_task(_until_gone(receive))
        for task in (self._play, self._gone):
            task.add_done_callback(lambda _: self._events.put_nowait(None))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in (self._play, self._gone):
            task.cancel()
        await asyncio.gather(self._play, self._gone, return_exceptions=True)

    async def next(self, patience: float | None = None) -> Event:
        """The next event.

        Raises:
            TimeoutError: There was none within that many seconds.
            ClientGone: The client left.
            Problem: The episode could not be played.
        """
        async with asyncio.timeout(patience):
            event = await self._events.get()
        if event is not None:
            return event
        if self._gone.done():
            raise ClientGone
        self._play.result()
        raise RuntimeError("the episode has ended, and its last event has been taken")


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
