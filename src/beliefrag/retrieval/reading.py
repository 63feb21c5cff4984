"""One file on its way into the index: its passages, and what had to be left out of it."""

from __future__ import annotations

from collections.abc import Iterator

from beliefrag.retrieval.chunk import passages_of
from beliefrag.retrieval.document import CorpusFile, Unreadable
from beliefrag.retrieval.readers import reader_for
from beliefrag.types import Passage

__all__ = ["Reading"]

_MOST_COMPLAINTS = 20


class Reading:
    """Reads a file as it is iterated over, and counts.

    Args:
        file: The file to read.

    Raises:
        Unreadable: While iterating, when nothing (more) can be had from the file.
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
                for passage in passages_of(document):
                    self.passages += 1
                    yield passage
        except Unreadable:
            raise
        except Exception as problem:
            # Parsers meet files that nobody foresaw. One of them costs that file, by name, and not the whole run.
            reason = " ".join(str(problem).split())[:200]
            raise Unreadable(f"cannot be read ({type(problem).__name__}: {reason})") from problem
        if not self.passages and not self._complaints:
            raise Unreadable("holds no text")

    def complaints(self) -> list[str]:
        """What was left out: the first few cases, and how many more there were."""
        more = [f"{self._further} more problems like these"] if self._further else []
        return self._complaints + more

    def _complain(self, what: str) -> None:
        if len(self._complaints) < _MOST_COMPLAINTS:
            self._complaints.append(what)
        else:
            self._further += 1
