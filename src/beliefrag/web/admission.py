"""Admits as many episodes as the server can run, lets a few wait, and tells the others when to ask again."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator

__all__ = ["AdmissionQueue", "QueueFull"]

_WEIGHT = 0.2
"""How much the latest episode counts in the moving average of durations."""


class QueueFull(Exception):
    """All places are taken and the queue is full.

    Args:
        retry_after: Whole seconds after which a place is likely to be free.
    """

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"full; try again in {retry_after} s")
        self.retry_after = retry_after


class AdmissionQueue:
    """A fixed number of places, with a queue in front of them.

    Args:
        places: How many may run at a time.
        queue: How many may wait.
        max_wait: The largest wait that a client is ever told, in seconds.
    """

    def __init__(self, places: int, queue: int, *, max_wait: float) -> None:
        self._places = places
        self._queue = queue
        self._max_wait = max_wait
        self._free = asyncio.Semaphore(places)
        self._started: dict[object, float] = {}
        self._waiting = 0
        self._average: float | None = None

    @property
    def in_flight(self) -> int:
        """How many places are taken."""
        return len(self._started)

    @property
    def waiting(self) -> int:
        """How many requests are in the queue."""
        return self._waiting

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Holds a place while the context is entered.

        Raises:
            QueueFull: There is no free place and no room to wait for one.
        """
        if self._free.locked() and self._waiting >= self._queue:
            raise QueueFull(self.retry_after())
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        key = object()
        began = self._started[key] = time.monotonic()
        try:
            yield
        finally:
            del self._started[key]
            self._free.release()
            self._update_average(time.monotonic() - began)

    def retry_after(self) -> int:
        """Estimates from past durations after how many whole seconds a new request would get a place."""
        # Before anything has finished, the age of the oldest episode is all that is known.
        now = time.monotonic()
        duration = self._average or max((now - began for began in self._started.values()), default=0.0)
        wait = duration * (self._waiting + 1) / self._places
        return max(1, math.ceil(min(wait, self._max_wait)))

    def _update_average(self, seconds: float) -> None:
        self._average = seconds if self._average is None else self._average + _WEIGHT * (seconds - self._average)
