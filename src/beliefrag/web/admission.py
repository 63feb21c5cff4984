"""Admits as many episodes as the server can run, in the order in which they came, and estimates the wait."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

__all__ = ["AdmissionQueue", "QueueFull", "Waiting"]

_WEIGHT = 0.2
"""Weight of the latest episode in the moving average of durations."""


@dataclass
class QueueFull(Exception):
    """All places are taken and the queue is full; a place is likely to be free after so many seconds."""

    retry_after: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where a request stands in the queue."""

    place: int
    """1 for the next one to begin; 0 if the question begins at once."""
    expected_seconds: int | None
    """The estimated wait; None until the first question has been answered."""

    def __str__(self) -> str:
        when = "" if self.expected_seconds is None else f", about {self.expected_seconds} s"
        return f"waiting, place {self.place}{when}"


class AdmissionQueue:
    """A fixed number of places with a first-in, first-out queue in front of them."""

    def __init__(self, places: int, queue: int, *, notice_seconds: float = 15.0) -> None:
        self._places = places
        self._queue = queue
        self._notice_seconds = notice_seconds
        self._started: dict[object, float] = {}
        # One event for each waiting request, set whenever it moves up.
        self._line: list[asyncio.Event] = []
        self._average: float | None = None

    @property
    def in_flight(self) -> int:
        """How many places are taken."""
        return len(self._started)

    @property
    def waiting(self) -> int:
        """How many requests are in the queue."""
        return len(self._line)

    @contextlib.asynccontextmanager
    async def place(self, on_wait: Callable[[Waiting], None] | None = None) -> AsyncIterator[None]:
        """Hold a place while the context is entered; report the wait at once, at each change and every few seconds.

        Raises:
            QueueFull: There is neither a free place nor room in the queue.
        """
        on_wait = on_wait or (lambda _: None)
        if self._line or len(self._started) >= self._places:
            if len(self._line) >= self._queue:
                raise QueueFull(self.retry_after())
            await self._wait_for_turn(on_wait)
        else:
            on_wait(Waiting(0, 0))
        key = object()
        self._started[key] = time.monotonic()
        try:
            yield
        finally:
            self._update_average(time.monotonic() - self._started.pop(key))
            self._move_up()

    def retry_after(self) -> int:
        """Estimate after how many whole seconds a new request would get a place."""
        expected = self._expected_seconds(len(self._line) + 1)
        if expected is None:
            # Before anything has finished, the age of the oldest episode is all that is known.
            oldest = max((time.monotonic() - began for began in self._started.values()), default=0.0)
            expected = math.ceil(oldest * (len(self._line) + 1) / self._places)
        return max(1, expected)

    async def _wait_for_turn(self, on_wait: Callable[[Waiting], None]) -> None:
        moved = asyncio.Event()
        self._line.append(moved)
        try:
            while self._line[0] is not moved or len(self._started) >= self._places:
                place = self._line.index(moved) + 1
                on_wait(Waiting(place, self._expected_seconds(place)))
                moved.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._notice_seconds):
                        await moved.wait()
        finally:
            self._line.remove(moved)
            self._move_up()

    def _move_up(self) -> None:
        for moved in self._line:
            moved.set()

    def _expected_seconds(self, place: int) -> int | None:
        """Estimate when the request at this place of the queue begins, if each episode takes as long as the average."""
        if self._average is None:
            return None
        now = time.monotonic()
        ends = [max(self._average - (now - began), 0.0) for began in self._started.values()]
        ends += [0.0] * (self._places - len(ends))
        heapq.heapify(ends)
        for _ in range(place - 1):
            heapq.heapreplace(ends, ends[0] + self._average)
        return math.ceil(ends[0])

    def _update_average(self, seconds: float) -> None:
        self._average = seconds if self._average is None else self._average + _WEIGHT * (seconds - self._average)
