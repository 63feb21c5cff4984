"""Reads files and cuts them into passages on the workers of a Ray cluster, ahead of the one process that writes.

Passages come back in the order of the files, so the index is the one that a single process would have made. A worker
compares the file that it sees with the one that is meant; where it has none, or another one, this process reads it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from beliefrag.ray_cluster import RayCluster, join_cluster
from beliefrag.retrieval.document import CorpusFile, Unreadable
from beliefrag.retrieval.file_reading import FileReading, Reading, file_stamp
from beliefrag.types import Passage

__all__ = ["RayReaders", "open_ray_readers"]

_PASSAGES_AT_ONCE = 500
_BLOCKS_AHEAD = 8
"""How many blocks of passages a worker may be ahead of the process that writes them."""
_BATCH_BYTES = 1_000_000
_BATCH_FILES = 64
_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Block:
    """Some passages of a file, and at its end what else is to be said about it."""

    number: int
    """Of the file, in its batch."""
    passages: tuple[Passage, ...] = ()
    is_last: bool = False
    complaints: tuple[str, ...] = ()
    unreadable: str = ""
    """Why nothing more can be read; empty where all was read."""
    is_elsewhere: bool = False
    """Whether the worker has not the file that is meant."""


def _read_batch(files: list[tuple[CorpusFile, _Stamp]]) -> Iterator[_Block]:
    """Reads files one after the other. It runs on workers."""
    for number, (file, stamp) in enumerate(files):
        if not _has_stamp(file, stamp):
            yield _Block(number, is_last=True, is_elsewhere=True)
            continue
        reading = FileReading(file)
        rest, reason = iter(reading), ""
        try:
            while block := tuple(islice(rest, _PASSAGES_AT_ONCE)):
                yield _Block(number, block)
        except Unreadable as problem:
            reason = problem.message
        yield _Block(number, is_last=True, complaints=tuple(reading.complaints()), unreadable=reason)


def _has_stamp(file: CorpusFile, stamp: _Stamp) -> bool:
    try:
        # The last time depends on the machine that a folder is mounted on.
        return file_stamp(file)[:2] == stamp[:2]
    except OSError:
        return False


@contextmanager
def open_ray_readers(on: str) -> Iterator[RayReaders]:
    """Joins a cluster for reading.

    Raises:
        SettingsError: The name is not known, or Ray is not installed.
        ClusterError: The cluster cannot be joined.
    """
    with join_cluster(on) as cluster:
        yield RayReaders(cluster)


class RayReaders:
    """Workers that read files ahead, in the order in which they will be asked for."""

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        options = {"num_returns": "streaming", "max_retries": 5, "_generator_backpressure_num_objects": _BLOCKS_AHEAD}
        self._task = cluster.ray.remote(_read_batch).options(**options)
        self._most_ahead = 2 * max(1, sum(node.processors for node in cluster.nodes()))
        self._batches: Iterator[list[tuple[CorpusFile, _Stamp]]] = iter(())
        self._ahead: deque[_RemoteBatch] = deque()

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Applies a function to each item on the workers, and gives the results in their order."""
        return self._cluster.map(function, items)

    def begin(self, files: Iterable[CorpusFile]) -> None:
        """Lets the workers begin to read files, which will be asked for in this order; some may be passed over."""
        self._batches = _cut_batches(files)
        self._read_ahead()

    def open_reading(self, file: CorpusFile) -> Reading:
        """Gives the passages of a file as the workers read it; those of files that come before it are dropped."""
        while self._ahead and file.path not in self._ahead[0]:
            self._ahead.popleft()
            self._read_ahead()
        if not self._ahead:
            return FileReading(file)
        return _RemoteReading(file, self._ahead[0])

    def _read_ahead(self) -> None:
        while len(self._ahead) < self._most_ahead and (batch := next(self._batches, None)):
            self._ahead.append(_RemoteBatch(self._cluster, batch, self._task.remote(batch)))


def _cut_batches(files: Iterable[CorpusFile]) -> Iterator[list[tuple[CorpusFile, _Stamp]]]:
    batch: list[tuple[CorpusFile, _Stamp]] = []
    size = 0
    for file in files:
        try:
            stamp = file_stamp(file)
        except OSError:
            # It is gone; the process that writes finds out and says so.
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

    def __init__(self, cluster: RayCluster, files: list[tuple[CorpusFile, _Stamp]], blocks: Any) -> None:
        self._cluster = cluster
        self._numbers = {file.path: number for number, (file, _) in enumerate(files)}
        self._blocks = blocks

    def __contains__(self, path: Path) -> bool:
        return path in self._numbers

    def read(self, path: Path) -> Iterator[_Block]:
        """Gives the blocks of a file; those of files that come before it are dropped."""
        number = self._numbers[path]
        for reference in self._blocks:
            block: _Block = self._cluster.get(reference)
            if block.number == number:
                yield block
                if block.is_last:
                    return


class _RemoteReading:
    """Reads a file on a worker."""

    def __init__(self, file: CorpusFile, batch: _RemoteBatch) -> None:
        self._file = file
        self._batch = batch
        self._complaints: list[str] = []
        self.passages = 0

    def __iter__(self) -> Iterator[Passage]:
        for block in self._batch.read(self._file.path):
            for passage in block.passages:
                self.passages += 1
                yield passage
            if block.is_elsewhere:
                yield from self._read_here()
            elif block.is_last:
                self._complaints = list(block.complaints)
                if block.unreadable:
                    raise Unreadable(block.unreadable)

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
