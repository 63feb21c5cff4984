"""Lets one process at a time work on a file or a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from beliefrag.errors import ModelError


@contextmanager
def hold_lock(path: Path, *, wait: bool = True, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock file. The operating system drops the lock of a killed process; the file itself means nothing."""
    # Imported here: it takes 50 ms, and `beliefrag --help` needs no lock.
    from filelock import FileLock, Timeout  # noqa: PLC0415

    # No soft lock where a file system has no locks: such a file would block everybody after a kill.
    lock = FileLock(path, thread_local=False, fallback_to_soft=False, poll_interval=0.2)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            if not wait:
                raise
            if on_wait:
                on_wait()
            lock.acquire()
    except Timeout:
        raise ModelError(f"Another process uses {path.stem}.", remedy="Try again when it has finished.") from None
    except OSError as error:
        remedy = "Set BELIEFRAG_CACHE_DIR to a folder of your own."
        raise ModelError(f"{path} cannot be written: {error.strerror}.", remedy=remedy) from None
    try:
        yield
    finally:
        lock.release()
