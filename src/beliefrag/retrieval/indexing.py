"""Makes an index from files, and keeps it up to date with them."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from beliefrag.errors import CorpusError
from beliefrag.retrieval.document import CorpusFile, Unreadable
from beliefrag.retrieval.file_reading import FileReading, OpenReading, Reading, file_stamp
from beliefrag.retrieval.files import FoundFiles, Skipped, find_files
from beliefrag.retrieval.ledger import IndexedFile, read_snapshot
from beliefrag.retrieval.readers import FORMATS
from beliefrag.retrieval.text import printable_path
from beliefrag.retrieval.writer import IndexWriter, PassageChange, PassageWriter
from beliefrag.types import Passage

if TYPE_CHECKING:
    from beliefrag.retrieval.dense.embedding_model import DenseOptions, EmbeddingModel
    from beliefrag.retrieval.ray_reading import RayReaders

__all__ = [
    "EmptyCorpus",
    "IndexProgress",
    "IndexReport",
    "OnProgress",
    "Paths",
    "index_paths",
    "list_paths",
    "upgrade_index",
]

_COMMIT_PASSAGES = 20_000
_COMMIT_SECONDS = 15.0
_PASSAGES_PER_REPORT = 1000
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far indexing has come."""

    files_done: int
    files_total: int
    passages: int
    """Passages added so far in this run."""
    path: str
    """The file in hand, printable."""
    vectors: int = 0
    """Passages whose vectors there are; 0 until all files are read."""


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
    vectors: str = ""
    """The embedding model whose vectors the folder of the index holds; empty where none were asked for."""


Paths = str | Path | Iterable[str | Path]
"""One file or folder, or several."""


def list_paths(paths: Paths) -> list[Path]:
    """Gives the paths as a list, also where a single one was given."""
    return [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]


class EmptyCorpus(CorpusError):
    """Nothing in the given paths could be read."""


def index_paths(
    paths: Paths,
    out: str | Path,
    *,
    progress: OnProgress | None = None,
    names: bool = True,
    vectors: DenseOptions | None = None,
    on: str | None = None,
) -> IndexReport:
    """Indexes all documents below some paths, and can be run again at any time to take in what changed.

    A file whose content is the same is not read again; the passages of a changed file are exchanged; those of a file
    that lay below one of the paths and is gone are removed. Work is committed as it goes: a run that was killed is
    completed by the next one, with the same result as one that was not.

    Args:
        paths: Files and folders. `readers.FORMATS` says which formats are read.
        out: The index directory, made if it is not there.
        progress: Called as the work goes on.
        names: Whether to make the graph of names too, which linked retrieval needs. It takes about as long as the
            index itself.
        vectors: Make the vectors too, with this embedding model, which dense and hybrid retrieval need. It takes a
            tenth of a second for each passage and processor.
        on: `ray` or `ray:ADDRESS`, to read, cut, name and embed on the workers of a Ray cluster. This process alone
            writes the index, which is the same as without them.

    Raises:
        EmptyCorpus: Nothing can be read; an index that was there before stays as it was.
        CorpusError: A path does not exist, or the index cannot be written.
        RetrievalError: The weights of the embedding model are not on this machine, or not on a worker.
    """
    target = Path(out)
    given = list_paths(paths)
    found = find_files(given, leave_out=target)
    made_here = not target.exists()
    if vectors is not None:
        vectors.check()

    try:
        with ExitStack() as closing:
            writer = closing.enter_context(IndexWriter(target))
            workers = closing.enter_context(_open_workers(on))
            model = None if vectors is None else _open_model(vectors, workers)

            def finish(work: _IndexRefresh) -> None:
                writer.compact()
                if names:
                    writer.upgrade(workers.map if workers else map)
                if model:
                    writer.write_vectors(model, work.report_vectors)

            report = _refresh_index(writer, found, given, progress, finish, workers=workers)
            return replace(report, vectors=model.name if model else "")
    except EmptyCorpus:
        if made_here:
            shutil.rmtree(target, ignore_errors=True)
        raise


def _refresh_index(
    writer: PassageWriter,
    found: FoundFiles,
    given: list[Path],
    progress: OnProgress | None,
    finish: Callable[[_IndexRefresh], None],
    *,
    workers: RayReaders | None,
) -> IndexReport:
    began = time.monotonic()
    work = _IndexRefresh(writer, found, progress or _ignore_progress, workers)
    work.run()
    if not len(writer):
        raise _empty_corpus_error(given, work.skipped)
    writer.commit()
    finish(work)
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


@contextmanager
def _open_workers(on: str | None) -> Iterator[RayReaders | None]:
    if on is None:
        yield None
        return
    # Only those who index on a cluster need it.
    from beliefrag.retrieval.ray_reading import open_ray_readers  # noqa: PLC0415

    with open_ray_readers(on) as workers:
        yield workers


def _open_model(options: DenseOptions, workers: RayReaders | None) -> EmbeddingModel:
    # Vectors need arrays and a runtime, which other indexes do not wait for.
    if workers is None:
        from beliefrag.retrieval.dense.embedding_model import load_model  # noqa: PLC0415

        return load_model(options)
    from beliefrag.retrieval.ray_embedding import open_ray_model  # noqa: PLC0415

    return open_ray_model(workers.cluster, workers.pool, options)


def upgrade_index(path: str | Path) -> bool:
    """Brings an index of an older version up to what this one makes, without the documents; says whether it changed.

    Raises:
        CorpusError: There is no index there, or it cannot be written.
    """
    read_snapshot(Path(path))
    with IndexWriter(path) as writer:
        return writer.upgrade()


def _ignore_progress(progress: IndexProgress) -> None:
    pass


def _empty_corpus_error(given: list[Path], skipped: list[Skipped]) -> EmptyCorpus:
    places = ", ".join(map(printable_path, given)) or "no path at all"
    named = [f"{item.path} {item.reason}" for item in skipped[:5]]
    further = [f"and {len(skipped) - 5} more"] if len(skipped) > 5 else []
    detail = f" Skipped: {'; '.join(named + further)}." if skipped else ""
    return EmptyCorpus(
        f"There is nothing to index in {places}.{detail}",
        remedy=f"Give files or folders with documents in one of these formats: {', '.join(FORMATS)}.",
    )


class _IndexRefresh:
    """The work of one run, and the count of it.

    Args:
        writer: The index to bring up to date.
        found: The files as they are now.
        on_progress: Called as the work goes on.
        workers: Read the files, where it is not this process.
    """

    def __init__(
        self, writer: PassageWriter, found: FoundFiles, on_progress: OnProgress, workers: RayReaders | None
    ) -> None:
        self._writer = writer
        self._found = found
        self._on_progress = on_progress
        self._workers = workers
        self._open_reading: OpenReading = workers.open_reading if workers else FileReading
        self._done = 0
        self._committed_at = time.monotonic()
        self.read = self.unchanged = self.removed = self.passages_added = self.passages_removed = 0
        self.skipped = list(found.skipped)

    def run(self) -> None:
        """Removes what came from files that are gone, and takes in what is new or has changed."""
        for path in [path for path in self._writer.files if self._found.has_lost(path)]:
            self._remove_file(path, printable_path(path))
            self.removed += 1
        if self._workers:
            self._workers.begin(file for path, file in self._found.files.items() if not self._is_unchanged(path, file))
        for path, file in self._found.files.items():
            self._report(file, 0)
            try:
                self._refresh_file(path, file)
            except OSError as problem:
                # The file is there but its content is unknown, so what the index has of it stays.
                self._skip(file, f"cannot be read: {problem.strerror or problem}")
            self._done += 1
            waited = time.monotonic() - self._committed_at
            # An index is never committed empty: if that is all there is, the run fails and the old one stays.
            if len(self._writer) and (self._writer.uncommitted >= _COMMIT_PASSAGES or waited > _COMMIT_SECONDS):
                self._writer.commit()
                self._committed_at = time.monotonic()

    def _is_unchanged(self, path: str, file: CorpusFile) -> bool:
        """Says whether a file has the size and the times that it had when it was indexed."""
        known = self._writer.files.get(path)
        try:
            return bool(known and known.sha256 and known == IndexedFile(known.sha256, *file_stamp(file)))
        except OSError:
            return False

    def _refresh_file(self, path: str, file: CorpusFile) -> None:
        known = self._writer.files.get(path)
        now = file_stamp(file)
        if known and known.sha256 and known == IndexedFile(known.sha256, *now):
            self.unchanged += 1
            return
        with file.path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        record = IndexedFile(digest, *_settled_stamp(now))
        if known and known.sha256 == digest:
            self.unchanged += 1
        else:
            # Recorded without a hash at first: should the work be cut off, the next run knows it to be half done.
            self._writer.record(path, IndexedFile())
            if not self._replace_passages(path, file):
                return
            if file_stamp(file) != now:
                self._skip(file, "changed while it was read; run again to take in the change")
                return
        self._writer.record(path, record)

    def _replace_passages(self, path: str, file: CorpusFile) -> bool:
        reading = self._open_reading(file)
        try:
            self._count(self._writer.put_source(file.source, self._report_passages(file, reading)))
        except Unreadable as problem:
            self._remove_file(path, file.source)
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

    def _report_passages(self, file: CorpusFile, reading: Reading) -> Iterator[Passage]:
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

    def report_vectors(self, made: int) -> None:
        """Reports for how many passages there are vectors."""
        self._on_progress(IndexProgress(self._done, len(self._found.files), self.passages_added, "", made))


def _settled_stamp(stamp: tuple[int, int, int]) -> tuple[int, int, int]:
    """Gives the stamp; for a file that changed just now, one that fits nothing, so that it is read again."""
    return stamp if time.time_ns() - max(stamp[1:]) > _SETTLED_NS else (-1, -1, -1)
