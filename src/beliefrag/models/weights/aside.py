"""The file that a pull is building: it only grows, so what is there is always a true beginning of the weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from beliefrag.errors import ModelError

__all__ = ["Aside"]


class Aside:
    """An unfinished file beside the final one, which the next pull continues wherever this one was killed.

    Args:
        path: The unfinished file.
        limit: How large it will be when it is whole.
        grown: Told the size in bytes whenever it has changed.
    """

    def __init__(self, path: Path, limit: int, grown: Callable[[int], None]) -> None:
        self.path = path
        self.limit = limit
        self._grown = grown

    @property
    def size(self) -> int:
        """How many bytes are there."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def cut(self, size: int) -> None:
        """Drops everything after the first `size` bytes."""
        if size < self.size:
            os.truncate(self.path, size)
        self._grown(self.size)

    def append(self, chunks: Iterable[bytes]) -> None:
        """Writes chunks at the end.

        Raises:
            ModelError: There is more than the weights can have, or no room on the disk.
        """
        size = self.size
        try:
            with self.path.open("ab") as file:
                for chunk in chunks:
                    size += len(chunk)
                    if size > self.limit:
                        # These are other weights from the first byte on; nothing of them is worth continuing.
                        file.truncate(0)
                        raise ModelError(
                            f"More data came than the {self.limit:,} bytes that these weights have.",
                            remedy="What came was deleted. Pull again, with another --source if there is one.",
                        )
                    file.write(chunk)
                    self._grown(size)
        except OSError as error:
            raise ModelError(
                f"{self.path} cannot be written: {error.strerror or error}.",
                remedy="Free some space, or set BELIEFRAG_CACHE_DIR to another disk; a new pull goes on from here.",
            ) from None

    def arriving(self, expected: int) -> None:
        """Tells the watcher about bytes that are on their way here but not in the file yet."""
        self._grown(min(self.size + expected, self.limit))
