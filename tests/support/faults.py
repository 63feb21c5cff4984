"""Lets faults happen at random moments while something goes on."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def at_random_moments(do: Callable[[], object], times: int, *, within: float) -> Iterator[list[float]]:
    """Do something at moments of its own while the block runs; return the list of moments.

    What returns False had nothing to break yet: it is tried again soon, and does not count.
    """
    done: list[float] = []
    over = threading.Event()

    def act() -> None:
        for _ in range(times):
            if over.wait(random.uniform(0.1, within)):
                return
            while do() is False:
                if over.wait(0.02):
                    return
            done.append(time.monotonic())

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()
