"""The process that plays episodes on a node of a Ray cluster, and what travels between it and the run's own process.

A worker opens datasets, model and methods itself. It writes replies to the shared cache and nothing else: episodes go
back to the run's process as lines, which alone writes them to the run's folder.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beliefrag.bench.player import InProcessPlayer
from beliefrag.bench.setup import RunSpec, Setup, set_up
from beliefrag.errors import BeliefRAGError
from beliefrag.record import Episode, EpisodeKey
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_files import episode_line
from beliefrag.settings import Settings

__all__ = ["EpisodeWorker", "PlayedEpisode", "WorkerInputs", "WorkerOpened", "WorkerProblem"]


@dataclass(frozen=True, slots=True)
class WorkerInputs:
    """All that a worker needs to open what the run's process has opened."""

    settings: Settings
    """Without anything secret: keys and passwords come from the environment of each node."""
    spec: RunSpec
    before: RunRecord | None
    """The record of the run that goes on, from which a replay takes the models' identities."""
    host: str
    """The machine of the run's process."""
    folder: str
    """The folder in which that process works: paths in the settings are relative to it."""
    cache_folder: str
    """The cache folder of that process, for workers on the same machine."""


@dataclass(frozen=True, slots=True)
class WorkerProblem:
    """Why a worker cannot go on; an exception would lose its remedy on the way."""

    host: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class WorkerOpened:
    """What a worker has opened, to be compared with what the run's process has."""

    host: str
    record: str
    """The record of the run as the worker would write it, as JSON."""


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """An episode that has ended, as a line of the run's file."""

    line: bytes
    missing_keys: frozenset[str]
    """The keys of the requests that a replay has found no reply for so far."""
    warnings: tuple[str, ...]
    """What was put in the log since the last episode."""


class EpisodeWorker:
    """Plays episodes, several at a time.

    Args:
        inputs: A list of one reference to the `WorkerInputs`. Within a list it travels as a reference, and is read when
            it is needed.
    """

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._inputs = inputs
        self._setup: Setup | None = None
        self._turn = asyncio.Lock()
        self._warnings = _WarningCollector()

    async def open(self) -> WorkerOpened | WorkerProblem:
        """Opens everything, and says what it is."""
        try:
            setup = await self._open_once()
        except BeliefRAGError as error:
            return WorkerProblem(socket.gethostname(), error.message, error.remedy)
        return WorkerOpened(socket.gethostname(), setup.record.model_dump_json())

    async def play(self, key: tuple[str, str, str, int], recorded: bytes | None) -> PlayedEpisode | WorkerProblem:
        """Plays and judges an episode.

        Args:
            key: Which one.
            recorded: The line of the episode as it was played before, where it is only to be judged.
        """
        try:
            setup = await self._open_once()
            before = Episode.model_validate_json(recorded) if recorded else None
            episode = await InProcessPlayer(setup).play(EpisodeKey(*key), before)
        except BeliefRAGError as error:
            return WorkerProblem(socket.gethostname(), error.message, error.remedy)
        return PlayedEpisode(episode_line(episode), setup.missing_keys, self._warnings.take())

    async def _open_once(self) -> Setup:
        """Opens everything at the first call, and gives the same setup at every later one."""
        async with self._turn:
            if self._setup is None:
                self._setup = self._open(await self._inputs[0])
        return self._setup

    def _open(self, inputs: WorkerInputs) -> Setup:
        if inputs.host == socket.gethostname():
            os.environ["BELIEFRAG_CACHE_DIR"] = inputs.cache_folder
        if Path(inputs.folder).is_dir():
            os.chdir(inputs.folder)
        logging.getLogger("beliefrag").addHandler(self._warnings)
        return set_up(inputs.settings, inputs.spec, inputs.before)


class _WarningCollector(logging.Handler):
    """Keeps warnings until somebody takes them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one."""
        self._kept.append(record.getMessage())

    def take(self) -> tuple[str, ...]:
        """Gives what has come since the last call."""
        kept, self._kept = self._kept, []
        return tuple(kept)
