"""Make an index from files, and keep it up to date with them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from beliefrag.errors import CorpusError
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.documents import (
    FORMATS,
    CorpusFile,
    Unreadable,
    format_of,
    printable_path,
)
from beliefrag.retrieval.isolation import FileReading, ReadingWorkers, open_regular
from beliefrag.retrieval.store import MANIFEST, IndexedFile, IndexUnusable, read_files
from beliefrag.retrieval.writer import IndexBusy, IndexWriter, PassageChange
from beliefrag.types import Passage, Reading

if TYPE_CHECKING:
    from beliefrag.retrieval.linked.build import MapBlocks


_COMMIT_PASSAGES = 20_000
_COMMIT_SECONDS = 15.0
_PASSAGES_PER_REPORT = 1000
_SETTLED_NS = 2_000_000_000
_LARGEST_REMOTE_BYTES = 32_000_000
"""Larger files are read by the process that writes, because their passages come back from a worker all at once."""
_WAIT_SECONDS = 120.0

_NAME_WORD = re.compile(r"[^\W_]{3,}")
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
    languages: Mapping[str, int]
    """How many passages of the index there are in each language."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to be read."""

    path: str
    """Its real path. It may hold any bytes, so it is opened but never shown."""
    name: str
    """Its printable path below the given folder: the name of the document."""
    source: str
    """Its whole printable path, which people are shown."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files below the given paths."""

    roots: tuple[str, ...]
    follow_links: bool = False
    files: dict[str, FoundFile] = field(default_factory=dict)
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


def find_unread(question: str, skipped: Iterable[Skipped]) -> Iterator[Skipped]:
    """Yield the files that were not read and that a question seems to be about: it has most words of their names."""
    asked = set(_NAME_WORD.findall(question.lower()))
    for each in skipped:
        words = set(_NAME_WORD.findall(PurePath(each.path).stem.lower()))
        if words and 3 * len(words & asked) >= 2 * len(words) and any(len(word) > 3 for word in words & asked):
            yield each


def list_paths(paths: Paths) -> list[Path]:
    """Return the paths as a list, also where a single one was given."""
    return [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]


def find_files(paths: Iterable[str | Path], *, leave_out: Path | None = None, follow_links: bool = False) -> FoundFiles:
    """Find all files to read below some paths, in the same order every time.

    Hidden files and folders are passed over unless they are given, and so are indexes, links to folders and links to
    files outside the given paths, unless links are followed.
    """
    roots = [os.path.realpath(path) for path in paths]
    for root in roots:
        if not os.path.exists(root):  # noqa: PTH110 - names of any bytes stay strings here
            raise CorpusError(f"{printable_path(root)} does not exist.", remedy="Check the path of the documents.")
    found = FoundFiles(tuple(sorted(set(roots))), follow_links)
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
    real = os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114
    if format_of(path) is None:
        ending = printable_path(os.path.splitext(path)[1])  # noqa: PTH122
        reason = f"has a format that is not read ({ending or 'no ending'})"
    elif found.follow_links or any(_is_below(real, root) for root in found.roots):
        found.files[path] = FoundFile(real, printable_path(name), printable_path(path))
        return
    else:
        reason = "is a link to a file elsewhere (setting reading.follow_links)"
    found.skipped.append(Skipped(printable_path(path), reason))


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def index_paths(
    paths: Paths,
    out: str | Path,
    *,
    progress: OnProgress | None = None,
    names: bool = True,
    on: str | None = None,
    reading: Reading = Reading(),
) -> IndexReport:
    """Index all documents below some paths; run it again to take in what changed, or to complete a killed run.

    Args:
        paths: Files and folders. `documents.FORMATS` lists the formats that are read.
        out: The folder of the index, made if it does not exist.
        progress: Called as the work goes on.
        names: Whether to make the graph of names too, which linked retrieval needs.
        on: `ray` or `ray:ADDRESS`, to read files and find names on a Ray cluster; the index is the same.
        reading: What reading a file may take, and whether links are followed.
    """
    began = time.monotonic()
    target, given = Path(out), list_paths(paths)
    found = find_files(given, leave_out=target, follow_links=reading.follow_links)
    made_here = not target.exists()
    try:
        with ExitStack() as closing:
            writer = closing.enter_context(IndexWriter(target))
            map_items: MapBlocks = map
            if on is not None:
                from beliefrag.ray_cluster import open_ray_map  # noqa: PLC0415

                map_items = closing.enter_context(open_ray_map(on))
            workers = closing.enter_context(ReadingWorkers(reading))
            work = _Refresh(writer, found, progress or (lambda _: None), workers)
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
                languages=writer.languages(),
            )
    except EmptyCorpus:
        if made_here:
            shutil.rmtree(target, ignore_errors=True)
        raise


def count_outdated(index: Path) -> int:
    """Count the files that were changed or deleted since they were indexed, by their size and time."""
    changed = 0
    for path, record in read_files(index).items():
        try:
            status = os.stat(path)  # noqa: PTH116 - names of any bytes stay strings here
        except OSError:
            changed += 1
        else:
            changed += record.mtime_ns >= 0 and (status.st_size, status.st_mtime_ns) != (record.size, record.mtime_ns)
    return changed


def docs_index_path(paths: Iterable[str | Path], cache: str | Path) -> Path:
    """Return the folder in the cache that belongs to these documents, in whatever order and spelling they are named."""
    resolved = sorted({os.path.realpath(path) for path in paths})
    key = hashlib.sha256(b"\0".join(os.fsencode(path) for path in resolved)).hexdigest()[:32]
    return Path(cache) / "indexes" / key


def docs_index(
    paths: Iterable[str | Path],
    cache: str | Path,
    *,
    progress: OnProgress | None = None,
    on: str | None = None,
    reading: Reading = Reading(),
) -> tuple[Bm25Index, IndexReport]:
    """Open an up-to-date index of some documents in the cache; one that is damaged or older is built again."""
    documents = list(paths)
    place = docs_index_path(documents, cache)

    def refresh() -> tuple[Bm25Index, IndexReport]:
        report = index_paths(documents, place, progress=progress, names=False, on=on, reading=reading)
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
    found: FoundFile
    stamp: _Stamp
    sha256: str
    content: BufferedReader

    def begin(self, workers: ReadingWorkers) -> FileReading:
        return workers.begin(CorpusFile(self.found.name, self.found.source, self.content))


class _Refresh:
    """The work of one run, and the count of it."""

    def __init__(
        self, writer: IndexWriter, found: FoundFiles, on_progress: OnProgress, workers: ReadingWorkers
    ) -> None:
        self._writer = writer
        self._found = found
        self._on_progress = on_progress
        self._workers = workers
        self._readers = _describe_readers(workers.limits)
        self._done = 0
        self._committed_at = time.monotonic()
        self.read = self.unchanged = self.removed = self.passages_added = self.passages_removed = 0
        self.skipped = list(found.skipped)

    def run(self, map_on_workers: MapBlocks | None) -> None:
        """Remove what came from files that are gone, and take in what is new or has changed."""
        for path in [path for path in self._writer.files if self._found.has_lost(path)]:
            self.removed += not self._writer.files[path].refused_by
            self._remove_file(path, printable_path(path))
        readings = self._read_on_ray(map_on_workers) if map_on_workers else self._read_here()
        with closing(readings):
            for each, reading in readings:
                with each.content:
                    self._store_changed(each, reading)
                self._done += 1
                waited = time.monotonic() - self._committed_at
                # An index is never committed empty.
                if len(self._writer) and (self._writer.uncommitted >= _COMMIT_PASSAGES or waited > _COMMIT_SECONDS):
                    self._writer.commit()
                    self._committed_at = time.monotonic()

    def _read_here(self) -> Generator[tuple[_ChangedFile, FileReading]]:
        ahead: deque[tuple[_ChangedFile, FileReading]] = deque()
        try:
            for changed in self._find_changed():
                ahead.append((changed, changed.begin(self._workers)))
                if len(ahead) >= self._workers.ahead:
                    yield ahead.popleft()
            while ahead:
                yield ahead.popleft()
        finally:
            for changed, _ in ahead:
                changed.content.close()

    def _read_on_ray(self, map_on_workers: MapBlocks) -> Generator[tuple[_ChangedFile, FileReading]]:
        """Read files on a cluster; what is large or differs there is read here."""
        ahead: deque[_ChangedFile] = deque()

        def describe() -> Iterator[tuple[FoundFile, _Stamp, Reading]]:
            for changed in self._find_changed():
                ahead.append(changed)
                yield changed.found, changed.stamp, self._workers.limits

        try:
            for loaded in map_on_workers(_read_remotely, describe()):
                changed = ahead.popleft()
                yield changed, loaded or changed.begin(self._workers)
        finally:
            for changed in ahead:
                changed.content.close()

    def _find_changed(self) -> Iterator[_ChangedFile]:
        """Yield the files whose content is not what it was when they were indexed."""
        for path, found in self._found.files.items():
            self._report(found, 0)
            changed = None
            try:
                changed = self._open_changed(path, found)
            except Unreadable as problem:
                self._remove_file(path, found.source)
                self._skip(found, problem.message)
            except OSError as problem:
                self._skip(found, f"cannot be read: {problem.strerror or problem}")
            if changed:
                yield changed
            else:
                self._done += 1

    def _open_changed(self, path: str, found: FoundFile) -> _ChangedFile | None:
        known = self._writer.files.get(path)
        if known and known.refused_by not in ("", self._readers):
            known = None
        with ExitStack() as closing_content:
            content = closing_content.enter_context(open_regular(found.path))
            stamp = _file_stamp(content)
            if known and known.sha256 and known[1:4] == stamp:
                self._keep(found, known)
                return None
            digest = hashlib.file_digest(content, "sha256").hexdigest()
            if known and known.sha256 == digest:
                self._keep(found, known)
                self._writer.record(path, IndexedFile(digest, *_settled_stamp(stamp), *known[4:]))
                return None
            closing_content.pop_all()
            return _ChangedFile(path, found, stamp, digest, content)

    def _keep(self, found: FoundFile, known: IndexedFile) -> None:
        self.unchanged += not known.refused_by
        self._skip(found, *known.complaints)

    def _store_changed(self, changed: _ChangedFile, reading: FileReading) -> None:
        path, found, reason = changed.path, changed.found, ""
        # Without a hash at first: after a kill, the next run knows it to be half done.
        self._writer.record(path, IndexedFile())
        try:
            self._count(self._writer.put_source(found.source, self._report_passages(found, reading)))
        except Unreadable as problem:
            self._remove_file(path, found.source)
            reason = problem.message
        complaints = [reason, *reading.complaints()] if reason else reading.complaints()
        self._skip(found, *complaints)
        if reason.endswith("(SIGKILL)"):  # by the system, which had no memory, or by a person
            return
        refused_by = self._readers if reason or not reading.passages else ""
        self.read += not refused_by
        if _file_stamp(changed.content) != changed.stamp:
            self._skip(found, "changed while it was read; run again to take in the change")
            return
        stamp = _settled_stamp(changed.stamp)
        self._writer.record(path, IndexedFile(changed.sha256, *stamp, complaints, refused_by))

    def _report_passages(self, found: FoundFile, reading: FileReading) -> Iterator[Passage]:
        for passage in reading:
            if reading.passages % _PASSAGES_PER_REPORT == 0:
                self._report(found, reading.passages)
            yield passage

    def _remove_file(self, path: str, source: str) -> None:
        self._count(self._writer.put_source(source, ()))
        self._writer.record(path, None)

    def _count(self, change: PassageChange) -> None:
        self.passages_added += change.added
        self.passages_removed += change.removed

    def _skip(self, found: FoundFile, *reasons: str) -> None:
        self.skipped += [Skipped(found.source, reason) for reason in reasons]

    def _report(self, found: FoundFile, within: int) -> None:
        self._on_progress(IndexProgress(self._done, len(self._found.files), self.passages_added + within, found.source))


def _read_remotely(asked: tuple[FoundFile, _Stamp, Reading]) -> FileReading | None:
    """Read a file in a process of a cluster; None leaves one that is large or differs there to the one that writes."""
    found, stamp, limits = asked
    with suppress(OSError, Unreadable), open_regular(found.path) as content:
        # The last time depends on the machine that a folder is mounted on.
        if stamp[0] <= _LARGEST_REMOTE_BYTES and _file_stamp(content)[:2] == stamp[:2]:
            with ReadingWorkers(limits) as workers:
                reading = workers.begin(CorpusFile(found.name, found.source, content))
                reading.load()
            return reading
    return None


def _describe_readers(limits: Reading) -> str:
    """Return what changes with the limits, our code and the libraries, one of which a format may need."""
    here = Path(__file__).parent
    ours = [here / "documents.py", here / "isolation.py", *sorted(here.glob("readers/*.py"))]
    libraries = [at.stat().st_mtime_ns for at in map(Path, sys.path) if at.match("*-packages") and at.is_dir()]
    described = f"{limits} {libraries} {shutil.which('tesseract')}".encode()
    return hashlib.sha256(b"".join((described, *map(Path.read_bytes, ours)))).hexdigest()[:16]


def _file_stamp(content: BufferedReader) -> _Stamp:
    """Return what changes with the content of a file: its size and its times."""
    status = os.fstat(content.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _settled_stamp(stamp: _Stamp) -> _Stamp:
    """Return the stamp; for a file that changed just now, one that fits nothing so that it is read again."""
    return stamp if time.time_ns() - max(stamp[1:]) > _SETTLED_NS else (-1, -1, -1)
