"""Gives memory that nobody uses any more back to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress

__all__ = ["return_free_memory"]


def return_free_memory() -> None:
    """Asks the C library to hand back what was freed; does nothing where it cannot.

    The engine works in threads, for each of which glibc keeps freed memory apart. What one batch of passages leaves
    there is seldom what the next one asks for, so without this an index of a million passages takes twice the memory.
    """
    # Libraries other than glibc do not have the function, and some systems cannot be asked for their library.
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
