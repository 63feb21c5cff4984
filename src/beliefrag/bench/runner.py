"""Plays the episodes of a run, several at a time, and puts each on disk as soon as it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from beliefrag.bench.judge import Judge
from beliefrag.bench.metrics import score_episode
from beliefrag.bench.plan import Jobs, Plan
from beliefrag.bench.setup import Setup
from beliefrag.engine import loop
from beliefrag.record import Episode, EpisodeKey, EpisodeSummary
from beliefrag.retrieval.injection import InjectedRetriever
from beliefrag.runs.run_errors import RunError
from beliefrag.runs.run_files import EpisodeLog

if TYPE_CHECKING:
    from beliefrag.bench.ray_player import RayPlayer

GIVE_UP_AFTER = 24
"""A run is given up after this many failures one after another with no success in between."""
_HOW_TO_RESUME = "Then run the same command again; finished episodes are kept."


class EpisodeLost(RunError):
    """An episode came to no end, not even to a failure. Nothing of it is on disk, and the next attempt plays it."""


Player: TypeAlias = "InProcessPlayer | RayPlayer"
"""Plays episodes and judges them where a verdict is due, in one or several lanes."""


class InProcessPlayer:
    """Plays episodes in this process."""

    lanes = 1

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    @property
    def missing_keys(self) -> int:
        """How many requests a replay found no reply for."""
        return len(self._setup.missing_keys)

    async def play(self, key: EpisodeKey, recorded: Episode | None = None, lane: int = 0) -> Episode:
        """Play an episode, or only judge the recorded one."""
        dataset = self._setup.datasets[key.dataset]
        labelled = dataset.questions[key.question_id]
        episode = recorded
        if episode is None:
            harness = dataset.harness_for(key.method, labelled)
            played = await loop.play(labelled.question, dataset.methods[key.method], harness)
            episode = score_episode(played, labelled, key)
            if dataset.injector is not None and isinstance(harness.retriever, InjectedRetriever):
                episode = dataset.injector.add_injected(episode, harness.retriever, labelled)
        if self._setup.judge is not None and Judge.is_due(episode, labelled):
            return await self._setup.judge.judge_episode(episode, labelled)
        return episode


def episodes_for(calls: int) -> int:
    """Return how many episodes must run at a time to keep the given number of calls under way.

    An episode that searches or waits for the cache makes no call: a quarter more of them fills its place.
    """
    return calls + calls // 4


@dataclass(frozen=True, slots=True)
class Tally:
    """What one call of a run did."""

    finished: int = 0
    failed: int = 0
    unjudged: int = 0
    """How many of the finished episodes the judge failed on."""
    last_error: str = ""


class Runner:
    """Plays what a plan asks for, `at_once` episodes at a time, and calls `on_episode` with each that is on disk.

    It gives up after many failures in a row unless it is `patient`, as a replay with missing replies is.
    """

    def __init__(
        self,
        player: Player,
        log: EpisodeLog,
        *,
        at_once: int,
        on_episode: Callable[[EpisodeSummary], object] = lambda _: None,
        patient: bool = False,
    ) -> None:
        self._player = player
        self._log = log
        self._at_once = at_once
        self._on_episode = on_episode
        self._patient = patient
        self._failures = 0
        self._judge_failures = 0
        self._tally = Tally()

    async def run(self, plan: Plan) -> Tally:
        """Play and judge what is left."""
        jobs = Jobs(plan, lanes=self._player.lanes)
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(min(self._at_once, plan.left)):
                    group.create_task(self._work(jobs, number % self._player.lanes))
        except BaseExceptionGroup as errors:
            # The first explains why the run ended; the others were cancelled or failed for the same reason.
            raise errors.exceptions[0] from None
        return self._tally

    async def _work(self, jobs: Jobs, lane: int) -> None:
        while (job := jobs.take(lane)) is not None:
            recorded = self._log.episode(job.key) if job.only_judge else None
            try:
                episode = await self._player.play(job.key, recorded, lane)
            except EpisodeLost as lost:
                self._count_failure(f"{lost.message} {lost.remedy}")
                continue
            await self._log.append(episode)
            self._on_episode(episode.summary())
            self._count_episode(episode)
            self._count_verdict(episode)

    def _count_failure(self, message: str) -> None:
        self._tally = replace(self._tally, failed=self._tally.failed + 1, last_error=message.rstrip())

    def _count_episode(self, episode: Episode) -> None:
        error = episode.error
        if error is None:
            self._tally = replace(self._tally, finished=self._tally.finished + 1)
            self._failures = 0
            return
        self._count_failure(f"{error.message} {error.remedy}")
        self._failures += 1
        if self._failures >= GIVE_UP_AFTER and not self._patient:
            raise RunError(
                f"The last {self._failures} episodes failed. Last error: {error.message}",
                remedy=f"{error.remedy} {_HOW_TO_RESUME}".lstrip(),
            )

    def _count_verdict(self, episode: Episode) -> None:
        verdict = episode.verdict
        # An abstention is wrong without asking: it says nothing about the judge.
        if verdict is None or not (verdict.usage.calls or verdict.error):
            return
        error = verdict.error
        if error is None:
            self._judge_failures = 0
            return
        self._tally = replace(self._tally, unjudged=self._tally.unjudged + 1, last_error=error.message)
        self._judge_failures += 1
        if self._judge_failures >= GIVE_UP_AFTER and not self._patient:
            raise RunError(
                f"The judge failed on the last {self._judge_failures} answers. Last error: {error.message}",
                remedy=f"Fix it, or leave it for later with --no-judge. {_HOW_TO_RESUME}",
            )
