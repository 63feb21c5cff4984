"""Play the episodes of a run on the workers of a Ray cluster.

The run's process keeps the plan and the files. A worker opens datasets, model and methods as that process does, plays
episodes with the same functions and sends them back; it writes replies to the shared cache and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets import load_dataset
from beliefrag.bench.runner import EpisodeLost, InProcessPlayer
from beliefrag.bench.setup import RunSpec, Setup, set_up
from beliefrag.errors import SettingsError
from beliefrag.ray_cluster import RETRIES, ClusterError, ClusterNode, RayCluster, join_cluster
from beliefrag.record import Episode, EpisodeKey
from beliefrag.runs.comparability import Aspect, differences
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_errors import RunError
from beliefrag.settings import Settings, cache_dir

_FINISH_SECONDS = 60.0
"""How long an interrupted run waits for the episodes under way."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    """All that a worker needs to open what the run's process has opened."""

    settings: Settings
    """Without secrets: keys and passwords come from the environment of each node."""
    spec: RunSpec
    before: RunRecord | None
    record: RunRecord
    """What the run's process has opened. Each worker must have the same."""
    host: str
    folder: str
    """Paths in the settings are relative to the working folder of the run's process."""
    cache_folder: str


class EpisodeWorker:
    """Plays episodes on a node, several at a time. The inputs are a list of one reference, resolved when needed."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._inputs = inputs
        self._setup: Setup | None = None
        self._turn = asyncio.Lock()
        self._playing = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def open(self) -> None:
        """Open everything at the first call, and check that it is what the run's process has opened."""
        async with self._turn:
            if self._setup is None:
                self._setup = self._open(await self._inputs[0])

    def _open(self, inputs: _Inputs) -> Setup:
        if inputs.host == socket.gethostname():
            os.environ["BELIEFRAG_CACHE_DIR"] = inputs.cache_folder
        if Path(inputs.folder).is_dir():
            os.chdir(inputs.folder)
        setup = set_up(inputs.settings, inputs.spec, inputs.before)
        _check_record(inputs.record, setup.record, socket.gethostname())
        return setup

    async def play(self, key: EpisodeKey, recorded: Episode | None) -> tuple[Episode, frozenset[str]]:
        """Play and judge an episode, or only judge the recorded one; return it with the missing keys of a replay."""
        await self.open()
        assert self._setup is not None
        self._playing += 1
        self._idle.clear()
        try:
            return await InProcessPlayer(self._setup).play(key, recorded), self._setup.missing_keys
        finally:
            self._playing -= 1
            if not self._playing:
                self._idle.set()

    async def finish(self) -> None:
        """Wait for the episodes under way: their replies are paid for, and kept when they come."""
        await self._idle.wait()


class RayPlayer:
    """Plays episodes on workers, each of which is a lane."""

    def __init__(self, cluster: RayCluster, workers: Sequence[Any]) -> None:
        self._cluster = cluster
        self._workers = workers
        self._missing: set[str] = set()

    @property
    def lanes(self) -> int:
        """How many workers there are."""
        return len(self._workers)

    @property
    def missing_keys(self) -> int:
        """How many requests a replay found no reply for."""
        return len(self._missing)

    async def open(self) -> None:
        """Open everything on all workers."""
        with self._cluster.explain_errors():
            await asyncio.gather(*(_wait(worker.open.remote()) for worker in self._workers))

    async def finish(self) -> None:
        """Wait for the episodes under way on all workers, but not for ever."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_SECONDS):
                await asyncio.gather(*(_wait(each.finish.remote()) for each in self._workers), return_exceptions=True)

    async def play(self, key: EpisodeKey, recorded: Episode | None, lane: int) -> Episode:
        """Play an episode on a worker, or raise `EpisodeLost` if it may be what kills the workers."""
        try:
            with self._cluster.explain_errors():
                episode: Episode
                episode, missing = await _wait(self._workers[lane].play.remote(key, recorded))
        except ClusterError as error:
            raise EpisodeLost(
                f"{RETRIES + 1} workers of Ray died during the episode of {key.method} on {key.question_id} of "
                f"{key.dataset}.",
                remedy=error.remedy,
            ) from None
        self._missing |= missing
        return episode


@contextlib.asynccontextmanager
async def open_ray_player(
    on: str,
    *,
    settings: Settings,
    spec: RunSpec,
    before: RunRecord | None,
    record: RunRecord,
    calls: int,
    episodes: int,
) -> AsyncIterator[RayPlayer]:
    """Start workers for `episodes`, with at most `calls` calls at a time together, and end them afterwards."""
    with join_cluster(on) as cluster:
        nodes = cluster.nodes()
        _check_shared_cache(settings, spec, nodes)
        # An embedded model uses all processors of its node.
        embedded = settings.is_embedded
        lanes = [node for node in nodes for _ in range(1 if embedded else max(1, node.processors))]
        lanes = lanes if embedded else lanes[: max(1, min(calls, episodes))]
        share = settings.model_copy(update={"concurrency": max(1, calls // len(lanes))})
        if not all(node.is_here for node in nodes):
            # Other machines need not have the files.
            spec = replace(spec, data=(), datasets=(*map(load_dataset, map(Path, spec.data)), *spec.datasets))
        inputs = _Inputs(share, spec, before, record, socket.gethostname(), str(Path.cwd()), str(cache_dir()))
        arguments = [[cluster.ray.put(inputs)]]
        with cluster.start_workers(EpisodeWorker, arguments, lanes, calls_at_once=share.concurrency * 2 + 2) as workers:
            player = RayPlayer(cluster, workers)
            await player.open()
            try:
                yield player
            finally:
                await player.finish()


def _check_shared_cache(settings: Settings, spec: RunSpec, nodes: Iterable[ClusterNode]) -> None:
    elsewhere = sorted({node.host for node in nodes if not node.is_here})
    if elsewhere and (settings.cache is True or (spec.replay and not settings.cache)):
        raise SettingsError(
            f"The reply cache is a file of this machine, and workers on {', '.join(elsewhere)} cannot share it.",
            remedy="Give --set cache=false.",
        )


def _check_record(here: RunRecord, there: RunRecord, host: str) -> None:
    found = [
        f"{name} {here.versions.get(name, 'none')}, there {there.versions.get(name, 'none')}"
        for name in sorted({*here.versions, *there.versions})
        if here.versions.get(name) != there.versions.get(name)
    ]
    found += [f"{what} {ours}, there {theirs}" for what, ours, theirs in differences(here, there, Aspect)]
    if found:
        raise RunError(
            f"The worker on {host} differs from this process: {'; '.join(found)}.",
            remedy="Install the same versions and put the same files on every node.",
        )


async def _wait(reference: Any) -> Any:
    return await reference
