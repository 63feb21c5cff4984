"""The trace: every event of an episode as one line of JSON, on disk as soon as it happens."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Any

from beliefrag.errors import BeliefRAGError, SettingsError
from beliefrag.events import Event, as_record

__all__ = ["Trace", "TraceIncomplete", "json_line"]

_ROOM = 64 * 1024
"""Bytes of a short episode's trace: a disk without room for them is an error before any model call is paid for."""


class TraceIncomplete(BeliefRAGError):
    """Some events could not be written. The answer stands all the same: it had been paid for."""


class Trace:
    """Writes events to a file, each flushed at once: a process that is killed leaves a trace that can be read.

    The file is opened, and room for it tried out, before the episode begins. Should the disk fill up later, the episode
    goes on and `check` tells in the end. An episode that never begins changes nothing: a file that was there keeps its
    content, and no empty one is left behind.

    Args:
        path: The file. A pipe or a device is written to as it is.

    Raises:
        SettingsError: The file is there already, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = 0
        self._problem: OSError | None = None
        self._is_new = not path.exists()
        only_new = self._is_new or path.is_file()
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | (os.O_EXCL if only_new else 0)
            self._file = os.fdopen(os.open(path, flags, 0o666), "ab")
            self._is_regular = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
            if self._is_regular:
                self._try_room()
        except FileExistsError:
            raise SettingsError(
                f"The trace {path} is there already.", remedy="Name another file, or remove it."
            ) from None
        except OSError as error:
            raise SettingsError(
                f"The trace {path} cannot be written: {error.strerror}.", remedy="Name a file in another place."
            ) from error

    def write(self, event: Event) -> None:
        """Appends one event."""
        if self._problem is not None:
            return
        try:
            if not self._lines and self._is_regular:
                self._file.truncate(0)
            self._file.write(json_line(as_record(event)).encode("ascii"))
            self._file.flush()
            self._lines += 1
        except OSError as error:
            self._problem = error

    def check(self) -> None:
        """Raises `TraceIncomplete` if an event could not be written."""
        if self._problem is not None:
            raise TraceIncomplete(
                f"The trace {self._path} breaks off after {self._lines} events: {self._problem.strerror}.",
                remedy="The answer stands; make room and ask again to have the whole trace.",
            )

    def close(self) -> None:
        """Closes the file. Calling it twice is harmless."""
        try:
            self._file.close()
        except OSError as error:
            self._problem = self._problem or error

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if not self._lines:
            self._forget()

    def _try_room(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        try:
            self._file.write(b"\n" * _ROOM)
            self._file.flush()
            self._file.truncate(size)
        except OSError:
            # Closing tries to write once more, so the old end is restored only after it.
            with contextlib.suppress(OSError):
                self._file.close()
            with contextlib.suppress(OSError):
                os.truncate(self._path, size)
            self._forget()
            raise

    def _forget(self) -> None:
        if self._is_new and self._path.is_file():
            self._path.unlink(missing_ok=True)


def json_line(record: dict[str, Any]) -> str:
    """Gives a record on one line, in ASCII: exact for programs, and nothing in it can act on a terminal."""
    return json.dumps(record, separators=(",", ":")) + "\n"
