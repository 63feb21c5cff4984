"""Lets in as many episodes as the server can play, keeps a few waiting, and tells the rest when to come back."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator

__all__ = ["Gate", "Overfull"]

_WEIGHT = 0.2
"""How much the latest episode counts in the average of how long one takes."""


class Overfull(Exception):
    """All places are taken and the queue is full.

    Args:
        retry_after: Whole seconds after which a place is likely to be free.
    """

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"full; try again in {retry_after} s")
        self.retry_after = retry_after


class Gate:
    """Places for episodes and a queue in front of them.

    Args:
        places: Episodes at a time.
        queue: How many may wait.
        longest: Seconds that nobody is ever told to wait longer than.
    """

    def __init__(self, places: int, queue: int, *, longest: float) -> None:
        self._places = places
        self._queue = queue
        self._longest = longest
        self._free = asyncio.Semaphore(places)
        self._since: dict[object, float] = {}
        self._waiting = 0
        self._typical: float | None = None

    @property
    def in_flight(self) -> int:
        """Places that are taken."""
        return len(self._since)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._waiting

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place for as long as the context lasts.

        Raises:
            Overfull: There is none, and no room to wait for one.
        """
        if self._free.locked() and self._waiting >= self._queue:
            raise Overfull(self.retry_after())
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        mark = object()
        began = self._since[mark] = time.monotonic()
        try:
            yield
        finally:
            del self._since[mark]
            self._free.release()
            self._learn(time.monotonic() - began)

    def retry_after(self) -> int:
        """Whole seconds until somebody who came now would get a place, from how long episodes have taken so far."""
        # Before anything has finished, what is known is how long the oldest episode has been going on.
        now = time.monotonic()
        typical = self._typical or max((now - since for since in self._since.values()), default=0.0)
        wait = typical * (self._waiting + 1) / self._places
        return max(1, math.ceil(min(wait, self._longest)))

    def _learn(self, seconds: float) -> None:
        self._typical = seconds if self._typical is None else self._typical + _WEIGHT * (seconds - self._typical)
