"""The ledger of an index: a file that says which passages and files it holds, and that agrees with it after any kill.

Tantivy commits atomically but knows nothing of fingerprints and files. So before every commit one line is appended here
and flushed to disk: the number of the commit it builds on (`base`), the corpus before and after, and what became of
which files. Whether that commit then happened can be read off the store: tantivy's own number has passed `base`, or it
has not. In the first case the line's `after` holds, in the second its `before`; there is no third. A torn last line was
never followed by a commit and is ignored. Readers need the last line only, take no lock and write nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from beliefrag.errors import CorpusError
from beliefrag.retrieval.fingerprint import EMPTY, CorpusState
from beliefrag.retrieval.passage_store import opstamp, sync_folder
from beliefrag.retrieval.text import printable_path

__all__ = [
    "IN_FORCE",
    "LEDGER",
    "REBUILD",
    "IndexIncomplete",
    "IndexUnusable",
    "IndexedFile",
    "Ledger",
    "LedgerEntry",
    "Snapshot",
    "read_snapshot",
]

LEDGER = "beliefrag-index.jsonl"
"""Name of the ledger inside an index directory; its presence makes a directory an index of ours."""

FORMAT = 1
IN_FORCE = -1
"""A `base` that every store has passed: the line holds as soon as it is written."""

REBUILD = "Remove the directory and build the index again with `beliefrag index`."
"""What to do with an index that cannot be used."""

_SPARE_RECORDS = 1000


class IndexUnusable(CorpusError):
    """An index is damaged or of another version; building it again helps."""


class IndexIncomplete(CorpusError):
    """The graph of names of an index is not there, or not yet. Make it, or wait for the process that is making it."""


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """What is known of an indexed file. An empty hash means that its passages were still being written."""

    sha256: str = ""
    size: int = -1
    mtime_ns: int = -1
    ctime_ns: int = -1


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One line of the ledger: a commit that was about to happen."""

    store: str
    base: int
    before: CorpusState
    after: CorpusState
    files: Mapping[str, IndexedFile | None] = field(default_factory=dict)
    """Files by path; None for one that is no longer indexed."""

    def line(self) -> bytes:
        """Gives the entry as it stands in the ledger. Paths may hold any bytes, so everything is escaped to ASCII."""
        states = [[state.passages, f"{state.total:x}"] for state in (self.before, self.after)]
        files = {
            path: record and [record.sha256, record.size, record.mtime_ns, record.ctime_ns]
            for path, record in self.files.items()
        }
        value = {"store": self.store, "base": self.base, "before": states[0], "after": states[1], "files": files}
        return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> LedgerEntry:
        """Reads an entry back."""
        value = json.loads(line)
        before, after = (CorpusState(int(n), int(total, 16)) for n, total in (value["before"], value["after"]))
        files = {path: IndexedFile(*record) if record else None for path, record in value["files"].items()}
        return cls(str(value["store"]), int(value["base"]), before, after, files)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which store is in force, at which commit, holding what."""

    store: Path
    opstamp: int
    state: CorpusState


def read_snapshot(index: Path) -> Snapshot:
    """Gives the state of an index at this moment.

    Raises:
        CorpusError: There is no index, it is not one of ours, of another version, or damaged.
    """
    with _explain_read_errors(index), (index / LEDGER).open("rb") as file:
        _check_header(index, file.readline())
        entry = LedgerEntry.parse(_last_line(file))
        store = index / entry.store
        stamp = opstamp(store)
    return Snapshot(store, stamp, entry.after if stamp > entry.base else entry.before)


class Ledger:
    """The ledger as a writer holds it: all of it read, its end repaired. It needs the store's lock.

    Args:
        index: The index directory. Its ledger is made when it has none.
        store: Name of the store that a new ledger begins with.
    """

    def __init__(self, index: Path, store: str) -> None:
        self.path = index / LEDGER
        self.files: dict[str, IndexedFile] = {}
        if not self.path.exists():
            self._rewrite(LedgerEntry(store, IN_FORCE, EMPTY, EMPTY))
        with _explain_read_errors(index):
            self._load(index)

    @property
    def store(self) -> Path:
        """The store in force."""
        return self.path.parent / self._store

    def append(self, entry: LedgerEntry) -> None:
        """Writes an entry to disk, whole or not at all.

        Raises:
            OSError: The disk refused it; the ledger is as it was before.
        """
        with self.path.open("ab") as file:
            end = file.tell()
            try:
                file.write(entry.line())
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    file.truncate(end)
                raise

    def apply(self, entry: LedgerEntry) -> None:
        """Takes over an entry whose commit has happened."""
        self._store = entry.store
        self.state = entry.after
        for path, record in entry.files.items():
            if record is None:
                self.files.pop(path, None)
            else:
                self.files[path] = record

    def _load(self, index: Path) -> None:
        lines = self.path.read_bytes().splitlines(keepends=True)
        _check_header(index, lines[0])
        whole = lines if lines[-1].endswith(b"\n") else lines[:-1]
        entries = [LedgerEntry.parse(line) for line in whole[1:]]
        last = entries[-1]
        if opstamp(index / last.store) <= last.base:
            # Killed between the line and its commit. The line must go, or a later commit would seem to confirm it.
            entries[-1] = LedgerEntry(last.store, IN_FORCE, last.before, last.before)
        for entry in entries:
            self.apply(entry)
        written = sum(1 + len(entry.files) for entry in entries)
        if entries[-1] is not last or len(whole) < len(lines) or written > 2 * len(self.files) + _SPARE_RECORDS:
            self._rewrite(LedgerEntry(last.store, IN_FORCE, self.state, self.state, dict(self.files)))

    def _rewrite(self, entry: LedgerEntry) -> None:
        beside = self.path.with_name("new-ledger")
        with beside.open("wb") as file:
            file.write(json.dumps({"beliefrag_index": FORMAT}).encode() + b"\n" + entry.line())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)
        sync_folder(self.path.parent)


def _check_header(index: Path, line: bytes) -> None:
    version = json.loads(line)["beliefrag_index"]
    if version != FORMAT:
        raise IndexUnusable(
            f"The index {printable_path(index)} has format {version!r}; this BeliefRAG reads format {FORMAT}.",
            remedy=REBUILD,
        )


def _last_line(file: BinaryIO) -> bytes:
    """Gives the last line that ends in a newline, without reading what stands before it."""
    start = file.seek(0, os.SEEK_END)
    tail, step = b"", 1 << 14
    while start > 0:
        step = min(2 * step, start)
        start = file.seek(start - step)
        tail = file.read(step) + tail
        end = tail.rfind(b"\n")
        begin = tail.rfind(b"\n", 0, max(end, 0))
        if begin >= 0:
            return tail[begin + 1 : end]
    return b""


@contextmanager
def _explain_read_errors(index: Path) -> Iterator[None]:
    """Explains why a ledger could not be read."""
    name = printable_path(index)
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as problem:
        if (index / LEDGER).exists():
            raise IndexUnusable(f"The index {name} is damaged: files are missing.", remedy=REBUILD) from problem
        raise CorpusError(
            f"{name} does not exist or is not a BeliefRAG index.",
            remedy="Build it with `beliefrag index`, or check the path.",
        ) from problem
    except OSError as problem:
        raise CorpusError(
            f"The index {name} cannot be read: {problem.strerror or problem}.", remedy="Check its permissions."
        ) from problem
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        raise IndexUnusable(f"The index {name} is damaged: its ledger cannot be read.", remedy=REBUILD) from problem
