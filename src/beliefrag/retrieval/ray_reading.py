"""Reads files and cuts them into passages on the workers of a Ray cluster, ahead of the one process that writes.

Passages come back in the order of the files, so the index is the one that a single process would have made. A worker
compares the file that it sees with the one that is meant; where it has none, or another one, this process reads it. So
it does with very large files, whose passages would fill the memory if they came back at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beliefrag.ray_cluster import RayCluster, WorkerPool, join_cluster
from beliefrag.retrieval.document import CorpusFile, Unreadable
from beliefrag.retrieval.file_reading import FileReading, Reading, file_stamp
from beliefrag.types import Passage

__all__ = ["RayReaders", "open_ray_readers"]

_BATCH_BYTES = 1_000_000
_BATCH_FILES = 64
_LARGEST_BYTES = 32_000_000
"""Larger files are read by the process that writes."""
_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _ReadFile:
    """What a worker read of a file."""

    passages: tuple[Passage, ...] = ()
    complaints: tuple[str, ...] = ()
    unreadable: str = ""
    """Why nothing more can be read; empty where all was read."""
    is_elsewhere: bool = False
    """Whether the worker has not the file that is meant."""


def _read_batch(files: list[tuple[CorpusFile, _Stamp]]) -> list[_ReadFile]:
    """Reads files one after the other. It runs on workers."""
    return [_read_file(file) if _has_stamp(file, stamp) else _ReadFile(is_elsewhere=True) for file, stamp in files]


def _read_file(file: CorpusFile) -> _ReadFile:
    reading = FileReading(file)
    passages: list[Passage] = []
    reason = ""
    try:
        passages.extend(reading)
    except Unreadable as problem:
        reason = problem.message
    return _ReadFile(tuple(passages), tuple(reading.complaints()), reason)


def _has_stamp(file: CorpusFile, stamp: _Stamp) -> bool:
    try:
        # The last time depends on the machine that a folder is mounted on.
        return file_stamp(file)[:2] == stamp[:2]
    except OSError:
        return False


@contextmanager
def open_ray_readers(on: str) -> Iterator[RayReaders]:
    """Joins a cluster, and starts one worker for each processor.

    Raises:
        SettingsError: The name is not known, or Ray is not installed.
        ClusterError: The cluster cannot be joined.
    """
    with join_cluster(on) as cluster, cluster.start_pool() as pool:
        yield RayReaders(cluster, pool)


class RayReaders:
    """Workers that read files ahead, in the order in which they will be asked for."""

    def __init__(self, cluster: RayCluster, pool: WorkerPool) -> None:
        self.cluster = cluster
        self.pool = pool
        self._batches: Iterator[list[tuple[CorpusFile, _Stamp]]] = iter(())
        self._ahead: deque[_RemoteBatch] = deque()

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Applies a function to each item on the workers, and gives the results in their order."""
        return self.cluster.map_on(self.pool, function, items)

    def begin(self, files: Iterable[CorpusFile]) -> None:
        """Lets the workers begin to read files, which will be asked for in this order; some may be passed over."""
        self._batches = _cut_batches(files)
        self._read_ahead()

    def open_reading(self, file: CorpusFile) -> Reading:
        """Gives the passages of a file as the workers read it; those of files that come before it are dropped."""
        if _is_for_here(file):
            return FileReading(file)
        while self._ahead and file.path not in self._ahead[0]:
            self._ahead.popleft()
            self._read_ahead()
        return _RemoteReading(file, self._ahead[0]) if self._ahead else FileReading(file)

    def _read_ahead(self) -> None:
        while len(self._ahead) < self.pool.most_ahead and (batch := next(self._batches, None)):
            self._ahead.append(_RemoteBatch(self.cluster, batch, self.pool.submit(_read_batch, batch)))


def _is_for_here(file: CorpusFile) -> bool:
    """Whether this process reads it: it is large, or it is gone, which is found out and told here."""
    try:
        return file_stamp(file)[0] > _LARGEST_BYTES
    except OSError:
        return True


def _cut_batches(files: Iterable[CorpusFile]) -> Iterator[list[tuple[CorpusFile, _Stamp]]]:
    batch: list[tuple[CorpusFile, _Stamp]] = []
    size = 0
    for file in files:
        try:
            stamp = file_stamp(file)
        except OSError:
            continue
        if stamp[0] > _LARGEST_BYTES:
            continue
        batch.append((file, stamp))
        size += stamp[0]
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _RemoteBatch:
    """Files that one worker reads one after the other."""

    def __init__(self, cluster: RayCluster, files: list[tuple[CorpusFile, _Stamp]], reference: Any) -> None:
        self._cluster = cluster
        self._numbers = {file.path: number for number, (file, _) in enumerate(files)}
        self._reference = reference
        self._read: list[_ReadFile] | None = None

    def __contains__(self, path: Path) -> bool:
        return path in self._numbers

    def read(self, path: Path) -> _ReadFile:
        """Waits for the worker, and gives what it read of a file."""
        if self._read is None:
            self._read = self._cluster.get(self._reference)
        return self._read[self._numbers[path]]


class _RemoteReading:
    """Reads a file on a worker."""

    def __init__(self, file: CorpusFile, batch: _RemoteBatch) -> None:
        self._file = file
        self._batch = batch
        self._complaints: list[str] = []
        self.passages = 0

    def __iter__(self) -> Iterator[Passage]:
        read = self._batch.read(self._file.path)
        if read.is_elsewhere:
            yield from self._read_here()
            return
        for passage in read.passages:
            self.passages += 1
            yield passage
        self._complaints = list(read.complaints)
        if read.unreadable:
            raise Unreadable(read.unreadable)

    def complaints(self) -> list[str]:
        """Gives what was left out."""
        return self._complaints

    def _read_here(self) -> Iterator[Passage]:
        reading = FileReading(self._file)
        try:
            for passage in reading:
                self.passages = reading.passages
                yield passage
        finally:
            self._complaints = reading.complaints()
