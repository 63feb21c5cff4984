"""Brings an index up to date with files, one file after the other."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

from beliefrag.retrieval.document import CorpusFile, Unreadable
from beliefrag.retrieval.files import Found, Skipped
from beliefrag.retrieval.ledger import FileRecord
from beliefrag.retrieval.names import printable
from beliefrag.retrieval.reading import Reading
from beliefrag.retrieval.report import IndexProgress, OnProgress
from beliefrag.retrieval.writer import Change, IndexWriter
from beliefrag.types import Passage

__all__ = ["Refresh"]

_COMMIT_PASSAGES = 20_000
_COMMIT_SECONDS = 15.0
_TELL_EVERY = 1000
_SETTLED_NS = 2_000_000_000


class Refresh:
    """The work of one run, and the count of it.

    Args:
        writer: The index to bring up to date.
        found: The files as they are now.
        tell: Called as the work goes on.
    """

    def __init__(self, writer: IndexWriter, found: Found, tell: OnProgress) -> None:
        self._writer = writer
        self._found = found
        self._tell = tell
        self._done = 0
        self._committed_at = time.monotonic()
        self.read = self.unchanged = self.removed = self.passages_added = self.passages_removed = 0
        self.skipped = list(found.skipped)

    def run(self) -> None:
        """Removes what came from files that are gone, and takes in what is new or has changed."""
        for path in [path for path in self._writer.files if self._found.has_lost(path)]:
            self._remove(path, printable(path))
            self.removed += 1
        for path, file in self._found.files.items():
            self._report(file, 0)
            try:
                self._take(path, file)
            except OSError as problem:
                # The file is there but its content is unknown, so what the index has of it stays.
                self._skip(file, f"cannot be read: {problem.strerror or problem}")
            self._done += 1
            waited = time.monotonic() - self._committed_at
            # An index is never committed empty: if that is all there is, the run fails and the old one stays.
            if len(self._writer) and (self._writer.uncommitted >= _COMMIT_PASSAGES or waited > _COMMIT_SECONDS):
                self._writer.commit()
                self._committed_at = time.monotonic()

    def _take(self, path: str, file: CorpusFile) -> None:
        known = self._writer.files.get(path)
        now = _stamp(file)
        if known and known.sha256 and known == FileRecord(known.sha256, *now):
            self.unchanged += 1
            return
        with file.path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        record = FileRecord(digest, *_settled(now))
        if known and known.sha256 == digest:
            self.unchanged += 1
        else:
            # Recorded without a hash at first: should the work be cut off, the next run knows it to be half done.
            self._writer.record(path, FileRecord())
            if not self._exchange(path, file):
                return
            if _stamp(file) != now:
                self._skip(file, "changed while it was read; run again to take in the change")
                return
        self._writer.record(path, record)

    def _exchange(self, path: str, file: CorpusFile) -> bool:
        reading = Reading(file)
        try:
            self._count(self._writer.put_source(file.source, self._watched(file, reading)))
        except Unreadable as problem:
            self._remove(path, file.source)
            self._skip(file, problem.message)
            return False
        finally:
            for complaint in reading.complaints():
                self._skip(file, complaint)
        if not reading.passages:
            self._writer.record(path, None)
            return False
        self.read += 1
        return True

    def _watched(self, file: CorpusFile, reading: Reading) -> Iterator[Passage]:
        for passage in reading:
            if reading.passages % _TELL_EVERY == 0:
                self._report(file, reading.passages)
            yield passage

    def _remove(self, path: str, source: str) -> None:
        self._count(self._writer.put_source(source, ()))
        self._writer.record(path, None)

    def _count(self, change: Change) -> None:
        self.passages_added += change.added
        self.passages_removed += change.removed

    def _skip(self, file: CorpusFile, reason: str) -> None:
        self.skipped.append(Skipped(file.source, reason))

    def _report(self, file: CorpusFile, within: int) -> None:
        self._tell(IndexProgress(self._done, len(self._found.files), self.passages_added + within, file.source))


def _stamp(file: CorpusFile) -> tuple[int, int, int]:
    status = file.path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _settled(stamp: tuple[int, int, int]) -> tuple[int, int, int]:
    """The stamp, unless it is so young that a further change could leave it the same: then one that fits nothing."""
    return stamp if time.time_ns() - max(stamp[1:]) > _SETTLED_NS else (-1, -1, -1)
