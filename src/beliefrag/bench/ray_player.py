"""Plays the episodes of a run on the workers of a Ray cluster.

The run's process keeps the plan and the files; workers play. When a worker dies, alone or with its node, whatever it
had under way is played again by a new one: the replies that were paid for are in the shared cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets import load_dataset
from beliefrag.bench.player import EpisodeLost
from beliefrag.bench.ray_worker import EpisodeWorker, PlayedEpisode, WorkerInputs, WorkerOpened, WorkerProblem
from beliefrag.bench.setup import RunSpec
from beliefrag.errors import SettingsError
from beliefrag.paths import cache_dir
from beliefrag.ray_cluster import ClusterNode, RayCluster, join_cluster
from beliefrag.record import Episode, EpisodeKey
from beliefrag.runs.comparability import Aspect, differences
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_errors import RunError
from beliefrag.runs.run_files import episode_line
from beliefrag.settings import Settings

__all__ = ["RayPlayer", "open_ray_player"]

_log = logging.getLogger(__name__)

_MOST_DEATHS_OF_EPISODE = 4
"""An episode during which this many workers died is left out: it may be what kills them."""
_MOST_DEATHS_OF_LANE = 3
"""So many workers of each lane that died one after another without an episode in between end the run."""
_LOCAL = "local:"


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
    """Starts workers on a cluster, each with everything opened, and ends them afterwards.

    Args:
        on: `ray` or `ray:ADDRESS`.
        settings: Model, budget and the rest.
        spec: What to run.
        before: The record of the run that goes on, if there is one.
        record: What the run's process has opened. Each worker must have the same.
        calls: Most calls at a time, over all workers together.
        episodes: How many episodes are left: more workers are of no use.

    Raises:
        SettingsError: The cluster cannot share what the settings name.
        ClusterError: The cluster cannot be joined.
        RunError: A worker has opened something else, or cannot open what is needed.
    """
    with join_cluster(on) as cluster:
        nodes = cluster.nodes()
        _check_shared_cache(settings, spec, nodes)
        lanes = _choose_lanes(settings, nodes, most=min(calls, episodes))
        share = settings.model_copy(update={"concurrency": max(1, calls // len(lanes))})
        if not all(node.is_here for node in nodes):
            # Other machines need not have the files.
            spec = replace(spec, data=(), datasets=(*map(load_dataset, map(Path, spec.data)), *spec.datasets))
        inputs = WorkerInputs(share, spec, before, socket.gethostname(), str(Path.cwd()), str(cache_dir()))
        player = RayPlayer(cluster, lanes, inputs)
        try:
            await player.check_workers(record)
            yield player
        finally:
            player.close()


def _check_shared_cache(settings: Settings, spec: RunSpec, nodes: Sequence[ClusterNode]) -> None:
    elsewhere = sorted({node.host for node in nodes if not node.is_here})
    if elsewhere and (settings.cache is True or (spec.replay and not settings.cache)):
        raise SettingsError(
            f"The reply cache is a file of this machine, and workers on {', '.join(elsewhere)} cannot share it.",
            remedy="Give --set cache=false.",
        )


def _choose_lanes(settings: Settings, nodes: Sequence[ClusterNode], *, most: int) -> list[ClusterNode]:
    """The node of each worker: one worker for each processor, and one for each node where the model is embedded."""
    embedded = settings.model.startswith(_LOCAL)
    lanes = [node for node in nodes for _ in range(1 if embedded else max(1, node.processors))]
    return lanes if embedded else lanes[: max(1, most)]


class RayPlayer:
    """Plays episodes on workers, each of which is a lane.

    Args:
        cluster: Where the workers are.
        nodes: The node of each worker.
        inputs: What each worker opens.
    """

    def __init__(self, cluster: RayCluster, nodes: Sequence[ClusterNode], inputs: WorkerInputs) -> None:
        self._cluster = cluster
        self._nodes = list(nodes)
        self._inputs = cluster.ray.put(inputs)
        self._calls_at_once = inputs.settings.concurrency * 2 + 2
        self._workers = [self._start(node) for node in self._nodes]
        self._dead: tuple[type[Exception], ...] = (cluster.ray.exceptions.RayActorError,)
        self._deaths_in_row = 0
        self._missing: set[str] = set()

    @property
    def lanes(self) -> int:
        """How many workers there are."""
        return len(self._workers)

    @property
    def missing_keys(self) -> int:
        """How many requests a replay found no reply for."""
        return len(self._missing)

    async def check_workers(self, record: RunRecord) -> None:
        """Makes sure that each worker has opened what the run's process has.

        Raises:
            RunError: One has not, or cannot open what is needed.
        """
        for opened in await asyncio.gather(*(self._open_worker(lane) for lane in range(self.lanes))):
            _check_record(record, RunRecord.model_validate_json(opened.record), opened.host)

    async def play(self, key: EpisodeKey, recorded: Episode | None, lane: int) -> Episode:
        """Plays an episode on a worker; where the worker dies, on a new one.

        Raises:
            EpisodeLost: Several workers died during this episode.
            RunError: Workers keep dying, or one cannot open what it needs.
        """
        line = episode_line(recorded) if recorded else None
        for _ in range(_MOST_DEATHS_OF_EPISODE):
            worker = self._workers[lane]
            try:
                played = await _result(worker.play.remote(tuple(key), line))
            except self._dead:
                self._replace_worker(lane, worker)
                continue
            if isinstance(played, WorkerProblem):
                raise _explain(played)
            assert isinstance(played, PlayedEpisode)
            self._deaths_in_row = 0
            self._missing |= played.missing_keys
            for warning in played.warnings:
                _log.warning("%s", warning)
            return Episode.model_validate_json(played.line)
        raise EpisodeLost(
            f"{_MOST_DEATHS_OF_EPISODE} workers of Ray died during the episode of {key.method} on {key.question_id} of "
            f"{key.dataset}.",
            remedy="See Ray's log files; memory is the usual reason.",
        )

    def close(self) -> None:
        """Ends the workers. An episode that is under way is dropped."""
        for worker in self._workers:
            with contextlib.suppress(Exception):
                self._cluster.ray.kill(worker)

    def _start(self, node: ClusterNode) -> Any:
        return self._cluster.start_worker(EpisodeWorker, [[self._inputs]], node=node, calls_at_once=self._calls_at_once)

    async def _open_worker(self, lane: int) -> WorkerOpened:
        while True:
            worker = self._workers[lane]
            try:
                opened = await _result(worker.open.remote())
            except self._dead:
                self._replace_worker(lane, worker)
                continue
            if isinstance(opened, WorkerProblem):
                raise _explain(opened)
            assert isinstance(opened, WorkerOpened)
            return opened

    def _replace_worker(self, lane: int, dead: Any) -> None:
        """Starts a new worker for a lane, unless another episode of it has done so already."""
        if self._workers[lane] is not dead:
            return
        self._deaths_in_row += 1
        nodes = self._cluster.nodes()
        if self._deaths_in_row > _MOST_DEATHS_OF_LANE * self.lanes:
            raise RunError(
                f"The last {self._deaths_in_row} workers of Ray died before they had finished an episode.",
                remedy="See Ray's log files; memory is the usual reason. Then give the same command again; what is "
                "done is kept.",
            )
        if self._nodes[lane] not in nodes:
            self._nodes[lane] = nodes[lane % len(nodes)]
        _log.warning("A worker of Ray died; a new one plays its episodes again.")
        self._workers[lane] = self._start(self._nodes[lane])


async def _result(reference: Any) -> Any:
    return await reference


def _check_record(here: RunRecord, there: RunRecord, host: str) -> None:
    found = [
        f"{name} {here.versions.get(name, 'none')}, there {there.versions.get(name, 'none')}"
        for name in sorted({*here.versions, *there.versions})
        if here.versions.get(name) != there.versions.get(name)
    ]
    found += [f"{each.what} {each.first}, there {each.second}" for each in differences(here, there, Aspect)]
    if found:
        raise RunError(
            f"The worker on {host} has not what this process has: {'; '.join(found)}.",
            remedy="Install the same versions and put the same files on every node.",
        )


def _explain(problem: WorkerProblem) -> RunError:
    return RunError(f"The worker on {problem.host} cannot go on: {problem.message}", remedy=problem.remedy)
