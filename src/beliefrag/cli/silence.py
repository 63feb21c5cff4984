"""A line every few seconds where nobody could otherwise tell a program at work from one that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["SilenceBreaker"]

_SECONDS = 12.0
"""A line is due every 15 s; a busy machine may be late."""


class SilenceBreaker:
    """Calls a function whenever some time has passed without a line, while it is entered.

    Args:
        say: Writes a line; it is told how many seconds have passed since the last time that something happened.
        seconds: The longest silence.
    """

    def __init__(self, say: Callable[[float], None], seconds: float | None = None) -> None:
        self._say = say
        self._seconds = _SECONDS if seconds is None else seconds
        self._happened_at = self._spoken_at = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="silence", daemon=True)

    def __enter__(self) -> SilenceBreaker:
        self.reset()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def reset(self) -> None:
        """Notes that something happened and was told."""
        self._happened_at = self._spoken_at = time.monotonic()

    def note(self) -> None:
        """Notes that something happened which was not told."""
        self._happened_at = time.monotonic()

    def _watch(self) -> None:
        while not self._ended.wait(max(0.0, self._spoken_at + self._seconds - time.monotonic())):
            now = time.monotonic()
            if now - self._spoken_at >= self._seconds:
                self._spoken_at = now
                self._say(now - self._happened_at)
