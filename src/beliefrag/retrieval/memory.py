"""What indexing does about memory: it gives back what was freed, and does not look for cycles where there are none."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["pause_cycle_search", "return_free_memory"]


@contextmanager
def pause_cycle_search() -> Iterator[None]:
    """Keeps Python from looking for reference cycles meanwhile.

    Indexing makes many small objects and no cycles, and each look goes through all that is held: some 8 % of
    its time. Reading documents does make cycles, so it must not be done within.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def return_free_memory() -> None:
    """Asks the C library to hand back what was freed; does nothing where it cannot.

    The engine works in threads, for each of which glibc keeps freed memory apart. What one batch of passages leaves
    there is seldom what the next one asks for, so without this an index of a million passages takes twice the memory.
    """
    # Libraries other than glibc do not have the function, and some systems cannot be asked for their library.
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
