"""Reads one file and cuts it into passages, as it is iterated over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from beliefrag.retrieval.chunk import cut_document
from beliefrag.retrieval.document import CorpusFile, Unreadable
from beliefrag.retrieval.readers import reader_for
from beliefrag.types import Passage

__all__ = ["FileReading", "OpenReading", "Reading", "file_stamp"]

_MOST_COMPLAINTS = 20


class Reading(Protocol):
    """The passages of one file, wherever they are read."""

    passages: int
    """How many there were so far."""

    def __iter__(self) -> Iterator[Passage]:
        """Gives the passages one after the other; raises `Unreadable` when nothing (more) can be read."""

    def complaints(self) -> list[str]:
        """Gives what was left out: the first few cases, and how many more there were."""


OpenReading = Callable[[CorpusFile], Reading]


def file_stamp(file: CorpusFile) -> tuple[int, int, int]:
    """Gives what changes with the content of a file: its size and its times."""
    status = file.path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


class FileReading:
    """Reads a file as it is iterated over, and counts.

    Args:
        file: The file to read.

    Raises:
        Unreadable: While iterating, when nothing (more) can be read from the file.
    """

    def __init__(self, file: CorpusFile) -> None:
        self._file = file
        self._complaints: list[str] = []
        self._further = 0
        self.passages = 0

    def __iter__(self) -> Iterator[Passage]:
        reader = reader_for(self._file.path.name)
        if reader is None:
            raise Unreadable("has a format that is not read")
        try:
            for document in reader(self._file, self._complain):
                for passage in cut_document(document):
                    self.passages += 1
                    yield passage
        except Unreadable:
            raise
        except Exception as problem:
            # A parser may fail in any way on a broken file. The file is then skipped, by name, and the run goes on.
            reason = " ".join(str(problem).split())[:200]
            raise Unreadable(f"cannot be read ({type(problem).__name__}: {reason})") from problem
        if not self.passages and not self._complaints:
            raise Unreadable("holds no text")

    def complaints(self) -> list[str]:
        """Gives what was left out: the first few cases, and how many more there were."""
        more = [f"{self._further} more problems like these"] if self._further else []
        return self._complaints + more

    def _complain(self, what: str) -> None:
        if len(self._complaints) < _MOST_COMPLAINTS:
            self._complaints.append(what)
        else:
            self._further += 1
