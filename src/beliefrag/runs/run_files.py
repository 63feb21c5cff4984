"""`episodes.jsonl`: one line per finished or failed episode, appended and on disk before it counts, never rewritten.

Of several lines for one episode the last one counts: a failed episode that was tried again, or a finished one that was
judged later. A kill can only tear the last line, and a torn line is dropped when the run is opened again. A
replay pays for nothing and syncs once, at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from beliefrag.errors import ModelError
from beliefrag.file_lock import hold_lock
from beliefrag.record import Episode, EpisodeKey, EpisodeSummary, to_json_line
from beliefrag.runs.run_errors import RunError

EPISODES_FILE = "episodes.jsonl"
LOCK_FILE = "running.lock"
_SEAL_BYTES = 28
_BINARY = getattr(os, "O_BINARY", 0)
"""Keeps Windows from writing two bytes for the end of a line."""


class EpisodeLine(NamedTuple):
    """One line of a run's file: the bytes at which it begins and ends, and its numbers."""

    offset: int
    end: int
    summary: EpisodeSummary


class EpisodeLog:
    """The file of a run's episodes, open for one process at a time.

    If it is synced, each line is on disk before `append` returns. A replay syncs once, at its end.
    """

    def __init__(self, folder: Path, *, synced: bool = True) -> None:
        self.path = folder / EPISODES_FILE
        self._synced = synced
        self._pending: list[bytes] = []
        self._turn = asyncio.Lock()
        self._writing = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as held:
                held.enter_context(hold_lock(folder / LOCK_FILE, wait=False))
                self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY, 0o666)
                held.callback(os.close, self._file)
                # As it was when the file was opened: it does not grow with the run so that memory stays flat.
                self.summaries: dict[EpisodeKey, EpisodeSummary] = {}
                self._offsets: dict[EpisodeKey, int] = {}
                whole = 0
                for line in read_lines(folder):
                    # An episode that is tried again moves to the end: what failed longest ago is tried first.
                    self.summaries.pop(line.summary.key, None)
                    self.summaries[line.summary.key] = line.summary
                    self._offsets[line.summary.key] = line.offset
                    whole = line.end
                if whole < os.fstat(self._file).st_size:
                    # A kill tore the last line.
                    os.ftruncate(self._file, whole)
                self._held = held.pop_all()
        except OSError as error:
            raise RunError(
                f"The run {folder} cannot be written: {error.strerror}.", remedy="Name another folder with --out."
            ) from error
        except ModelError as error:
            raise RunError(
                f"The run {folder} cannot be opened: {error.message}", remedy="One process at a time can run it."
            ) from None

    async def append(self, episode: Episode) -> None:
        """Put one episode on disk. Lines that come while the disk is busy go together with the next one."""
        if not self._synced:
            self._write(episode_line(episode))
            return
        self._pending.append(episode_line(episode))
        async with self._turn:
            if lines := self._pending:
                self._pending = []
                # Shielded: what was paid for is written, also when the run is being cancelled.
                await asyncio.shield(asyncio.to_thread(self._write, b"".join(lines), sync=True))

    def episode(self, key: EpisodeKey) -> Episode:
        """Return the whole of an episode that was there when the file was opened."""
        return read_episode_at(self.path.parent, self._offsets[key])

    def close(self) -> None:
        """Close the file and lets another process run the run. What still waits for the disk is written first."""
        try:
            if self._pending or not self._synced:
                self._write(b"".join(self._pending), sync=True)
        finally:
            with self._writing:
                self._held.close()

    def __enter__(self) -> EpisodeLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, data: bytes, *, sync: bool = False) -> None:
        with self._writing:
            end = os.fstat(self._file).st_size
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                if sync:
                    os.fsync(self._file)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, end)
                raise RunError(
                    f"{self.path} cannot be written: {error.strerror}.",
                    remedy="Free some space and run the same command again; what was written is kept.",
                ) from error


def read_summaries(folder: Path) -> dict[EpisodeKey, EpisodeSummary]:
    """Return the numbers of each episode of a run, in the order of the lines that count: the last one of each."""
    found: dict[EpisodeKey, EpisodeSummary] = {}
    for line in read_lines(folder):
        found.pop(line.summary.key, None)
        found[line.summary.key] = line.summary
    return found


def read_episodes(folder: Path) -> Iterator[Episode]:
    """Read the whole episodes of a run, one after the other. Of several lines for one episode the last one counts."""
    latest = {line.summary.key: line.offset for line in read_lines(folder)}
    for offset in latest.values():
        yield read_episode_at(folder, offset)


def read_lines(folder: Path) -> Iterator[EpisodeLine]:
    """Read every line of a run in the order of the file, also those that a later line replaces."""
    path = folder / EPISODES_FILE
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            end = offset + len(line)
            if line.endswith(b"\n"):
                yield EpisodeLine(offset, end, parse_line(EpisodeSummary, line, folder, f"Line {number:,}"))
            offset = end


def read_episode_at(folder: Path, offset: int) -> Episode:
    """Read the whole episode whose line begins at this byte of the file."""
    try:
        with (folder / EPISODES_FILE).open("rb") as file:
            file.seek(offset)
            return parse_line(Episode, file.readline(), folder, f"The line at byte {offset:,}")
    except OSError as error:
        raise RunError(f"{folder / EPISODES_FILE} cannot be read: {error.strerror}.") from error


def comparable_lines(folder: Path) -> list[str]:
    """Return the latest line of each episode without its timings, in a fixed order: equal for equal runs."""
    found = sorted(read_episodes(folder), key=lambda episode: episode.key)
    return [to_json_line(episode.without_timing()) for episode in found]


def episode_line(episode: Episode) -> bytes:
    """Return an episode as a line of the file, with a seal: a hash of the line without it."""
    line = to_json_line(episode, exclude_defaults=True).encode("ascii")
    return line[:-2] + _seal(line)


def _seal(line: bytes) -> bytes:
    return b',"seal":"%b"}\n' % hashlib.sha256(line).hexdigest()[:16].encode()


_Model = TypeVar("_Model", bound=BaseModel)


def parse_line(kind: type[_Model], line: bytes, folder: Path, which: str) -> _Model:
    """Return what a line of the file holds; `which` names the line in an error. Older versions wrote no seals."""
    remedy = "Delete that line, and give the command of the run again to replace the episode."
    if b'"seal"' in line[-_SEAL_BYTES - 10 :]:
        line, seal = line[:-_SEAL_BYTES] + b"}\n", line[-_SEAL_BYTES:]
        if seal != _seal(line):
            raise RunError(f"{which} of {folder / EPISODES_FILE} was changed after it was written.", remedy=remedy)
    try:
        return kind.model_validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(
            f"{which} of {folder / EPISODES_FILE} is not an episode: {where + ': ' if where else ''}{first['msg']}.",
            remedy=remedy,
        ) from None
