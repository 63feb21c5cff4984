"""One process at a time, by a lock that the operating system drops when its holder dies."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from beliefrag.errors import ModelError

__all__ = ["exclusive"]

_PAUSE = 0.2


@contextmanager
def exclusive(path: Path, *, patient: bool = True, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Holds the lock file for the length of a `with` block.

    The file stays behind: deleting it would let a third process lock a new file of the same name. Its presence means
    nothing, so a killed process blocks nobody.

    Args:
        path: The lock file; its folder must exist.
        patient: Whether to wait for another holder, or to raise.
        waiting: Called once, when there is another holder to wait for.

    Raises:
        ModelError: The file cannot be written, or another process holds it and we are not patient.
    """
    with _opened(path) as file:
        told = False
        while not _locked(file):
            if not patient:
                raise ModelError(
                    f"Another process is at work on {path.stem}.", remedy="Wait until it has finished, then try again."
                )
            if waiting and not told:
                waiting()
                told = True
            time.sleep(_PAUSE)
        # Closing the file lets go of the lock.
        yield


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("a+b")
    except OSError as error:
        raise ModelError(
            f"{path} cannot be written: {error.strerror}.", remedy="Set BELIEFRAG_CACHE_DIR to a folder of your own."
        ) from None


if sys.platform == "win32":
    import msvcrt

    def _locked(file: IO[bytes]) -> bool:
        try:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _locked(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
