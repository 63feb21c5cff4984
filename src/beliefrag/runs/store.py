"""`episodes.jsonl`: one line per finished or failed episode, appended and on disk before it counts, never rewritten.

Of several lines for one episode the last one counts: a failed episode that was tried again, or a finished one that was
judged later. A kill can only tear the last line, and a torn line is dropped when the run is opened again. A
replay pays for nothing and syncs once, at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from beliefrag.errors import ModelError
from beliefrag.models.weights.lock import exclusive
from beliefrag.runs.errors import RunError
from beliefrag.runs.validate import check_episode, why

__all__ = [
    "EPISODES_FILE",
    "LOCK_FILE",
    "NOT_AN_EPISODE",
    "Episode",
    "EpisodeKey",
    "EpisodeLog",
    "Line",
    "comparable",
    "episode_line",
    "no_episode",
    "read_episodes",
    "read_lines",
    "read_records",
]

EPISODES_FILE = "episodes.jsonl"
LOCK_FILE = "running.lock"
_BINARY = getattr(os, "O_BINARY", 0)
"""Keeps Windows from writing two bytes for the end of a line."""
_BLOCK = 1 << 16


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_no_number)
"""Python reads NaN and Infinity, which no run writes and no mean survives."""


class EpisodeKey(NamedTuple):
    """Which episode it is."""

    dataset: str
    method: str
    question_id: str
    seed: int


@dataclass(frozen=True, slots=True)
class Episode:
    """The numbers of one episode, without its trace: small enough to hold all of a run's in memory."""

    key: EpisodeKey
    outcome: str
    metrics: Mapping[str, float | None]
    usage: Mapping[str, Any]
    judge: Mapping[str, Any] | None
    """Verdict and cost of the judge; None where nobody judged."""
    seconds: float
    """How long the model took for its replies when they were made."""
    cause: str
    """Why it failed; empty if it did not."""
    offset: int
    """Where its line begins in the file."""
    message: str = ""
    """What was said of its failure, in full."""

    @property
    def finished(self) -> bool:
        """Whether it ended with an answer or an abstention. A failed one is tried again."""
        return self.outcome != "failed"

    @property
    def judge_failed(self) -> str:
        """Why the judge failed on it; empty where it did not, or was not asked."""
        error = self.judge.get("error") if self.judge else None
        return str(error.get("cause", "")) if isinstance(error, Mapping) else ""

    @classmethod
    def of(cls, record: Mapping[str, Any], offset: int = 0) -> Episode:
        """The numbers of one line.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: The line is no episode; `NOT_AN_EPISODE` names them all.
        """
        check_episode(record)
        return cls(
            key=EpisodeKey(record["dataset"], record["method"], record["question_id"], record["seed"]),
            outcome=record["outcome"],
            metrics=record["metrics"],
            usage=record["usage"],
            judge=record["judge"],
            seconds=record["timing"]["model_seconds"],
            cause=record["error"]["cause"] if record.get("error") else "",
            offset=offset,
            message=str(record["error"].get("message", "")) if record.get("error") else "",
        )


class Line(NamedTuple):
    """One whole line of a run's file, and where it stands."""

    number: int
    record: dict[str, Any]
    episode: Episode


NOT_AN_EPISODE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a damaged line can raise, whatever the damage."""


class EpisodeLog:
    """The file of a run's episodes, open for one process at a time.

    Args:
        folder: The run's.
        synced: Whether each line is on disk before `append` returns. A replay pays for nothing and can be made again,
            so it leaves the moment to the system and syncs once, at the end.

    Raises:
        RunError: The file cannot be used, is damaged before its last line, or another process runs this run.
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
                held.enter_context(exclusive(folder / LOCK_FILE, patient=False))
                self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY, 0o666)
                held.callback(os.close, self._file)
                self._drop_torn_line()
                # As it was when the file was opened: it does not grow with the run, so that memory stays flat.
                self.episodes = read_episodes(folder)
                self._held = held.pop_all()
        except OSError as error:
            raise RunError(
                f"The run {folder} cannot be written: {error.strerror}.", remedy="Name another folder with --out."
            ) from error
        except ModelError as error:
            raise RunError(
                f"The run {folder} cannot be opened: {error.message}", remedy="One process at a time can run it."
            ) from None

    async def append(self, record: Mapping[str, Any]) -> None:
        """Puts one line on disk. Lines that come while the disk is busy go together with the next one.

        Raises:
            RunError: It cannot be written.
        """
        if not self._synced:
            self._write(episode_line(record))
            return
        self._pending.append(episode_line(record))
        async with self._turn:
            if lines := self._pending:
                self._pending = []
                # Shielded: what was paid for is written, also when the run is being cancelled.
                await asyncio.shield(asyncio.to_thread(self._write, b"".join(lines), sync=True))

    def record_of(self, episode: Episode) -> dict[str, Any]:
        """The whole line of an episode that was there when the file was opened."""
        with self.path.open("rb") as file:
            file.seek(episode.offset)
            record: dict[str, Any] = json.loads(file.readline())
            return record

    def close(self) -> None:
        """Closes the file and lets another process run the run. What still waits for the disk is written first."""
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
                    remedy="Make room and give the same command again; what was written before is kept.",
                ) from error

    def _drop_torn_line(self) -> None:
        with self.path.open("rb") as file:
            size = start = keep = file.seek(0, os.SEEK_END)
            while start:
                start = max(0, start - _BLOCK)
                file.seek(start)
                found = file.read(min(_BLOCK, keep - start)).rfind(b"\n")
                keep = start + found + 1
                if found >= 0:
                    break
        if keep < size:
            os.ftruncate(self._file, keep)


def read_episodes(folder: Path) -> dict[EpisodeKey, Episode]:
    """The latest line of each episode of a run.

    Raises:
        RunError: A line other than a torn last one cannot be read.
    """
    return {line.episode.key: line.episode for line in read_lines(folder)}


def read_records(folder: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a run, one after the other: of several for one episode the last one counts.

    Raises:
        RunError: A line other than a torn last one cannot be read.
    """
    return (line.record for line in read_lines(folder))


def read_lines(folder: Path) -> Iterator[Line]:
    """The whole lines of a run with their numbers, for whoever reads more of them than the numbers of an episode.

    Raises:
        RunError: A line other than a torn last one is no episode.
    """
    path = folder / EPISODES_FILE
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                try:
                    record = _DECODER.decode(line.decode())
                    episode = Episode.of(record, offset)
                except NOT_AN_EPISODE as error:
                    raise no_episode(folder, number, error) from None
                yield Line(number, record, episode)
            offset += len(line)


def no_episode(folder: Path, number: int, error: Exception) -> RunError:
    """What to say of a line that is none."""
    return RunError(
        f"Line {number} of {folder / EPISODES_FILE} is no episode: {why(error)}.",
        remedy="Delete that line, and give the command of the run again to make up for it.",
    )


def comparable(folder: Path) -> list[str]:
    """The latest line of each episode without its timings, in a fixed order: equal for equal runs."""
    latest: dict[EpisodeKey, str] = {}
    for line in read_lines(folder):
        plain = {name: value for name, value in line.record.items() if name != "timing"}
        latest[line.episode.key] = json.dumps(plain)
    return [latest[key] for key in sorted(latest)]


def episode_line(record: Mapping[str, Any]) -> bytes:
    """A record on one line, in ASCII: no text in it can break the line or act on a terminal."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
