"""Make an index from files, and keep it up to date with them."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from beliefrag.errors import CorpusError
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.documents import (
    FORMATS,
    CorpusFile,
    Unreadable,
    cut_document,
    format_of,
    printable_path,
    reader_for,
)
from beliefrag.retrieval.store import MANIFEST, IndexedFile, IndexUnusable
from beliefrag.retrieval.writer import IndexBusy, IndexWriter, PassageChange
from beliefrag.types import Passage

if TYPE_CHECKING:
    from beliefrag.retrieval.linked.build import MapBlocks


_COMMIT_PASSAGES = 20_000
_COMMIT_SECONDS = 15.0
_PASSAGES_PER_REPORT = 1000
_SETTLED_NS = 2_000_000_000
_MOST_COMPLAINTS = 20
_LARGEST_REMOTE_BYTES = 32_000_000
"""Larger files are read by the process that writes, because their passages come back from a worker all at once."""
_WAIT_SECONDS = 120.0

_T = TypeVar("_T")
_Stamp = tuple[int, int, int]

Paths = str | Path | Iterable[str | Path]
"""One file or folder, or several."""


class EmptyCorpus(CorpusError):
    """Nothing in the given paths could be read."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file, or a part of one, that was left out: its printable path, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far indexing has come: passages added in this run, and the current file."""

    files_done: int
    files_total: int
    passages: int
    path: str


OnProgress = Callable[[IndexProgress], None]
"""Called before every file, and now and then within a large one."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an indexing run did."""

    files_read: int
    files_unchanged: int
    files_removed: int
    skipped: tuple[Skipped, ...]
    """Files that gave nothing, and parts of files that were left out, with reasons."""
    passages_added: int
    passages_removed: int
    passages_total: int
    seconds: float
    fingerprint: str


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files below the given paths."""

    roots: tuple[str, ...]
    files: dict[str, CorpusFile] = field(default_factory=dict)
    """Files of a format that is read, by path."""
    skipped: list[Skipped] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    """Folders that could not be listed."""

    def has_lost(self, path: str) -> bool:
        """Return whether a file known from before lay below the given paths and is missing now."""
        return (
            path not in self.files
            and any(_is_below(path, root) for root in self.roots)
            and not any(_is_below(path, folder) for folder in self.unlisted)
        )


def list_paths(paths: Paths) -> list[Path]:
    """Return the paths as a list, also where a single one was given."""
    return [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]


def find_files(paths: Iterable[str | Path], *, leave_out: Path | None = None) -> FoundFiles:
    """Find all files to read below some paths, in the same order every time.

    Hidden files and folders are passed over unless they are given, and so are indexes, links to folders, and anything
    that is not a regular file.
    """
    roots = [os.path.realpath(path) for path in paths]
    for root in roots:
        if not os.path.exists(root):  # noqa: PTH110 - names of any bytes stay strings here
            raise CorpusError(f"{printable_path(root)} does not exist.", remedy="Check the path of the documents.")
    found = FoundFiles(tuple(sorted(set(roots))))
    for root in found.roots:
        if os.path.isdir(root):  # noqa: PTH112
            for path in _walk_folder(root, os.path.realpath(leave_out) if leave_out else "", found):
                _add_file(found, path, os.path.relpath(path, root))
        else:
            _add_file(found, root, os.path.basename(root))  # noqa: PTH119
    return found


def _walk_folder(root: str, own: str, found: FoundFiles) -> Iterator[str]:
    def skip_folder(problem: OSError) -> None:
        found.unlisted.append(problem.filename)
        found.skipped.append(Skipped(printable_path(problem.filename), f"cannot be listed: {problem.strerror}"))

    for here, folders, names in os.walk(root, onerror=skip_folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if here == own or MANIFEST in names:
            folders.clear()
            continue
        for folder in (os.path.join(here, name) for name in folders):  # noqa: PTH118
            if os.path.islink(folder):  # noqa: PTH114
                reason = "is a link to a folder; give the folder itself"
                found.skipped.append(Skipped(printable_path(folder), reason))
        yield from (os.path.join(here, name) for name in sorted(names) if not name.startswith("."))  # noqa: PTH118


def _add_file(found: FoundFiles, path: str, name: str) -> None:
    if path in found.files:
        return
    reason = ""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            reason = "is not a regular file"
        elif format_of(path) is None:
            ending = printable_path(os.path.splitext(path)[1])  # noqa: PTH122
            reason = f"has a format that is not read ({ending or 'no ending'})"
    except OSError as problem:
        reason = f"cannot be read: {problem.strerror}"
    if reason:
        found.skipped.append(Skipped(printable_path(path), reason))
    else:
        found.files[path] = CorpusFile(Path(path), printable_path(name), printable_path(path))


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


class FileReading:
    """Reads a file and cuts it into passages as it is iterated over; `Unreadable` ends the iteration."""

    def __init__(self, file: CorpusFile) -> None:
        self._file = file
        self._complaints: list[str] = []
        self._further = 0
        self._loaded: list[Passage] | None = None
        self._reason = ""
        self.passages = 0
        """How many there were so far."""

    def load(self) -> None:
        """Read the whole file into memory, so that a worker can send it back."""
        passages: list[Passage] = []
        try:
            passages.extend(self)
        except Unreadable as problem:
            self._reason = problem.message
        self._loaded, self.passages = passages, 0

    def __iter__(self) -> Iterator[Passage]:
        for passage in self._read() if self._loaded is None else self._loaded:
            self.passages += 1
            yield passage
        reason = self._reason or ("" if self.passages or self._complaints else "holds no text")
        if reason:
            raise Unreadable(reason)

    def complaints(self) -> list[str]:
        """Return what was left out: the first few cases, and how many more there were."""
        return self._complaints + ([f"{self._further} more problems like these"] if self._further else [])

    def _read(self) -> Iterator[Passage]:
        try:
            for document in reader_for(self._file.path.name)(self._file, self._complain):
                yield from cut_document(document)
        except Unreadable:
            raise
        except Exception as problem:
            # A parser may fail in any way on a broken file, which is then skipped.
            reason = " ".join(str(problem).split())[:200]
            raise Unreadable(f"cannot be read ({type(problem).__name__}: {reason})") from problem

    def _complain(self, what: str) -> None:
        if len(self._complaints) < _MOST_COMPLAINTS:
            self._complaints.append(what)
        else:
            self._further += 1


def index_paths(
    paths: Paths,
    out: str | Path,
    *,
    progress: OnProgress | None = None,
    names: bool = True,
    on: str | None = None,
) -> IndexReport:
    """Index all documents below some paths; run it again to take in what changed, or to complete a killed run.

    Args:
        paths: Files and folders. `documents.FORMATS` lists the formats that are read.
        out: The folder of the index, made if it does not exist.
        progress: Called as the work goes on.
        names: Whether to make the graph of names too, which linked retrieval needs.
        on: `ray` or `ray:ADDRESS`, to read files and find names on a Ray cluster; the index is the same.
    """
    began = time.monotonic()
    target, given = Path(out), list_paths(paths)
    found = find_files(given, leave_out=target)
    made_here = not target.exists()
    try:
        with ExitStack() as closing:
            writer = closing.enter_context(IndexWriter(target))
            map_items: MapBlocks = map
            if on is not None:
                from beliefrag.ray_cluster import open_ray_map  # noqa: PLC0415

                map_items = closing.enter_context(open_ray_map(on))
            work = _Refresh(writer, found, progress or (lambda _: None))
            work.run(map_items if on else None)
            if not len(writer):
                raise _empty_corpus_error(given, work.skipped)
            writer.compact()
            if names:
                writer.write_graph(map_items)
            return IndexReport(
                files_read=work.read,
                files_unchanged=work.unchanged,
                files_removed=work.removed,
                skipped=tuple(work.skipped),
                passages_added=work.passages_added,
                passages_removed=work.passages_removed,
                passages_total=len(writer),
                seconds=time.monotonic() - began,
                fingerprint=writer.fingerprint,
            )
    except EmptyCorpus:
        if made_here:
            shutil.rmtree(target, ignore_errors=True)
        raise


def docs_index_path(paths: Iterable[str | Path], cache: str | Path) -> Path:
    """Return the folder in the cache that belongs to these documents, in whatever order and spelling they are named."""
    resolved = sorted({os.path.realpath(path) for path in paths})
    key = hashlib.sha256(b"\0".join(os.fsencode(path) for path in resolved)).hexdigest()[:32]
    return Path(cache) / "indexes" / key


def docs_index(
    paths: Iterable[str | Path], cache: str | Path, *, progress: OnProgress | None = None, on: str | None = None
) -> tuple[Bm25Index, IndexReport]:
    """Open an up-to-date index of some documents in the cache; one that is damaged or older is built again."""
    documents = list(paths)
    place = docs_index_path(documents, cache)

    def refresh() -> tuple[Bm25Index, IndexReport]:
        report = index_paths(documents, place, progress=progress, names=False, on=on)
        return Bm25Index.open(place), report

    try:
        return wait_while_busy(refresh)
    except IndexUnusable:
        shutil.rmtree(place, ignore_errors=True)
        return wait_while_busy(refresh)


def wait_while_busy(work: Callable[[], _T]) -> _T:
    """Return the result of some work, tried again for two minutes while another writer is at the index."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            return work()
        except IndexBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _empty_corpus_error(given: list[Path], skipped: list[Skipped]) -> EmptyCorpus:
    places = ", ".join(map(printable_path, given)) or "no path at all"
    named = [f"{item.path} {item.reason}" for item in skipped[:5]]
    named += [f"and {len(skipped) - 5} more"] if len(skipped) > 5 else []
    detail = f" Skipped: {'; '.join(named)}." if named else ""
    remedy = f"Give files or folders with documents in one of these formats: {', '.join(FORMATS)}."
    return EmptyCorpus(f"There is nothing to index in {places}.{detail}", remedy=remedy)


class _ChangedFile(NamedTuple):
    path: str
    file: CorpusFile
    stamp: _Stamp
    sha256: str


class _Refresh:
    """The work of one run, and the count of it."""

    def __init__(self, writer: IndexWriter, found: FoundFiles, on_progress: OnProgress) -> None:
        self._writer = writer
        self._found = found
        self._on_progress = on_progress
        self._done = 0
        self._committed_at = time.monotonic()
        self.read = self.unchanged = self.removed = self.passages_added = self.passages_removed = 0
        self.skipped = list(found.skipped)

    def run(self, map_on_workers: MapBlocks | None) -> None:
        """Remove what came from files that are gone, and take in what is new or has changed."""
        for path in [path for path in self._writer.files if self._found.has_lost(path)]:
            self._remove_file(path, printable_path(path))
            self.removed += 1
        changed = self._find_changed()
        readings = map_on_workers(_read_remotely, changed) if map_on_workers else map(_begin_reading, changed)
        for each, reading in readings:
            try:
                self._take_in(each, reading)
            except OSError as problem:
                self._skip(each.file, f"cannot be read: {problem.strerror or problem}")
            self._done += 1
            waited = time.monotonic() - self._committed_at
            # An index is never committed empty.
            if len(self._writer) and (self._writer.uncommitted >= _COMMIT_PASSAGES or waited > _COMMIT_SECONDS):
                self._writer.commit()
                self._committed_at = time.monotonic()

    def _find_changed(self) -> Iterator[_ChangedFile]:
        """Yield the files whose content is not what it was when they were indexed."""
        for path, file in self._found.files.items():
            self._report(file, 0)
            try:
                changed = self._compare_file(path, file)
            except OSError as problem:
                self._skip(file, f"cannot be read: {problem.strerror or problem}")
                changed = None
            if changed:
                yield changed
            else:
                self._done += 1

    def _compare_file(self, path: str, file: CorpusFile) -> _ChangedFile | None:
        known = self._writer.files.get(path)
        stamp = _file_stamp(file)
        if known and known.sha256 and known == IndexedFile(known.sha256, *stamp):
            self.unchanged += 1
            return None
        with file.path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if known and known.sha256 == digest:
            self.unchanged += 1
            self._writer.record(path, IndexedFile(digest, *_settled_stamp(stamp)))
            return None
        return _ChangedFile(path, file, stamp, digest)

    def _take_in(self, changed: _ChangedFile, reading: FileReading) -> None:
        path, file = changed.path, changed.file
        # Without a hash at first: after a kill, the next run knows it to be half done.
        self._writer.record(path, IndexedFile())
        try:
            self._count(self._writer.put_source(file.source, self._report_passages(file, reading)))
        except Unreadable as problem:
            self._remove_file(path, file.source)
            self._skip(file, problem.message)
            return
        finally:
            for complaint in reading.complaints():
                self._skip(file, complaint)
        if not reading.passages:
            self._writer.record(path, None)
            return
        self.read += 1
        if _file_stamp(file) != changed.stamp:
            self._skip(file, "changed while it was read; run again to take in the change")
            return
        self._writer.record(path, IndexedFile(changed.sha256, *_settled_stamp(changed.stamp)))

    def _report_passages(self, file: CorpusFile, reading: FileReading) -> Iterator[Passage]:
        for passage in reading:
            if reading.passages % _PASSAGES_PER_REPORT == 0:
                self._report(file, reading.passages)
            yield passage

    def _remove_file(self, path: str, source: str) -> None:
        self._count(self._writer.put_source(source, ()))
        self._writer.record(path, None)

    def _count(self, change: PassageChange) -> None:
        self.passages_added += change.added
        self.passages_removed += change.removed

    def _skip(self, file: CorpusFile, reason: str) -> None:
        self.skipped.append(Skipped(file.source, reason))

    def _report(self, file: CorpusFile, within: int) -> None:
        self._on_progress(IndexProgress(self._done, len(self._found.files), self.passages_added + within, file.source))


def _begin_reading(changed: _ChangedFile) -> tuple[_ChangedFile, FileReading]:
    return changed, FileReading(changed.file)


def _read_remotely(changed: _ChangedFile) -> tuple[_ChangedFile, FileReading]:
    """Read a file on a worker; one that is large or differs there is left to the process that writes."""
    reading = FileReading(changed.file)
    with suppress(OSError):
        # The last time depends on the machine that a folder is mounted on.
        if changed.stamp[0] <= _LARGEST_REMOTE_BYTES and _file_stamp(changed.file)[:2] == changed.stamp[:2]:
            reading.load()
    return changed, reading


def _file_stamp(file: CorpusFile) -> _Stamp:
    """Return what changes with the content of a file: its size and its times."""
    status = file.path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _settled_stamp(stamp: _Stamp) -> _Stamp:
    """Return the stamp; for a file that changed just now, one that fits nothing, so that it is read again."""
    return stamp if time.time_ns() - max(stamp[1:]) > _SETTLED_NS else (-1, -1, -1)
