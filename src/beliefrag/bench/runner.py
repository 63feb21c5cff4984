"""Plays the episodes of a run, several at a time, and puts each on disk as soon as it has ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from beliefrag.bench.circuit_breaker import CircuitBreaker
from beliefrag.bench.judge import Judge
from beliefrag.bench.plan import Plan
from beliefrag.bench.scoring import score_episode
from beliefrag.bench.setup import Setup
from beliefrag.engine import loop
from beliefrag.events import Event
from beliefrag.result import Result
from beliefrag.retrieval.injection import InjectedRetriever
from beliefrag.runs.episode import Episode, EpisodeKey, EpisodeSummary, Verdict
from beliefrag.runs.errors import RunError
from beliefrag.runs.store import EpisodeLog

__all__ = ["Runner", "Tally", "Watcher", "episodes_for"]


def episodes_for(calls: int) -> int:
    """How many episodes at a time keep so many calls under way.

    An episode that searches, waits for the cache or is written down makes no call. A quarter more of them fills its
    place; where calls are made one by one, episodes are too.
    """
    return calls + calls // 4


class Watcher(Protocol):
    """Told of every episode that is on disk."""

    def ended(self, episode: EpisodeSummary) -> None:
        """Takes in one episode."""
        ...


@dataclass(slots=True)
class Tally:
    """What a run came to this time."""

    finished: int = 0
    failed: int = 0
    unjudged: int = 0
    """Of the finished ones, those for which the judge failed."""
    trouble: str = ""
    """Why the latest episode failed, or could not be judged."""
    stopped: bool = False
    """Whether it was asked to stop before everything was done."""


class Runner:
    """Plays what a plan asks for.

    Args:
        setup: Everything opened.
        log: Where episodes go.
        at_once: How many episodes at a time. How many calls are made at a time is up to the model's own limit.
        watcher: Told of each.
        patient: Whether to go on after many failures in a row, as a replay with missing replies does.
    """

    def __init__(
        self, setup: Setup, log: EpisodeLog, *, at_once: int, watcher: Watcher | None = None, patient: bool = False
    ) -> None:
        self._setup = setup
        self._log = log
        self._at_once = at_once
        self._watcher = watcher
        self._patient = patient
        self._failures = CircuitBreaker()
        self._unjudged = CircuitBreaker()
        self._tally = Tally()

    def stop(self) -> None:
        """Begins no further episode; those under way are finished."""
        self._tally.stopped = True

    async def run(self, plan: Plan) -> Tally:
        """Plays and judges what is left.

        Raises:
            RunError: Nothing can be written, or everything fails.
        """
        # A judge that fails on what was played before must not keep anything from being played.
        jobs = iter([*((key, False) for key in plan.to_play), *((key, True) for key in plan.to_judge)])
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._at_once, plan.left)):
                    group.create_task(self._work(jobs))
        except BaseExceptionGroup as errors:
            # One is enough to say why the run ended; the others were cancelled or failed for the same reason.
            raise errors.exceptions[0] from None
        if next(jobs, None) is None:
            self._tally.stopped = False
        return self._tally

    async def _work(self, jobs: Iterator[tuple[EpisodeKey, bool]]) -> None:
        while not self._tally.stopped and (job := next(jobs, None)) is not None:
            key, only_judge = job
            verdict: Verdict | None = None
            episode = self._log.episode(key) if only_judge else await self._play(key)
            labelled = self._setup.courses[key.dataset].questions[key.question_id]
            if self._setup.judge is not None and Judge.is_due(episode, labelled):
                episode = await self._setup.judge.judge_episode(episode, labelled)
                verdict = episode.verdict
                if verdict and verdict.error:
                    self._tally.unjudged += 1
                    self._tally.trouble = verdict.error.message
            await self._log.append(episode)
            if self._watcher is not None:
                self._watcher.ended(episode.summary())
            self._count(episode)
            self._count_verdict(key, verdict)

    async def _play(self, key: EpisodeKey) -> Episode:
        course = self._setup.courses[key.dataset]
        labelled = course.questions[key.question_id]
        harness = course.harness_for(labelled)
        stream = loop.run(labelled.question, course.methods[key.method], harness)
        async with contextlib.aclosing(stream):
            seen: list[Event] = [event async for event in stream]
        episode = score_episode(Result.of(seen), labelled, key)
        if course.injector is not None and isinstance(harness.retriever, InjectedRetriever):
            return course.injector.add_injected(episode, harness.retriever, labelled)
        return episode

    def _count(self, episode: Episode) -> None:
        error = episode.error
        if error is None:
            self._tally.finished += 1
            self._failures.went_well()
            return
        self._tally.failed += 1
        self._tally.trouble = f"{error.message} {error.remedy}".rstrip()
        before = self._log.summaries.get(episode.key)
        self._failures.failed(error.cause, before=before.cause if before else "", replies=episode.usage.calls)
        if self._failures.hopeless and not self._patient:
            raise RunError(
                f"The last {self._failures.length} episodes failed, the latest one so: {error.message}",
                remedy=f"{error.remedy} Then give the same command again; what is done is kept.".lstrip(),
            )

    def _count_verdict(self, key: EpisodeKey, verdict: Verdict | None) -> None:
        # An abstention is wrong without asking: it says nothing about the judge.
        if verdict is None or not (verdict.usage.calls or verdict.error):
            return
        if verdict.error is None:
            self._unjudged.went_well()
            return
        before = self._log.summaries.get(key)
        self._unjudged.failed(
            verdict.error.cause, before=before.judge_failure if before else "", replies=verdict.usage.calls
        )
        if self._unjudged.hopeless and not self._patient:
            raise RunError(
                f"The judge failed on the last {self._unjudged.length} answers, the latest one so: "
                f"{verdict.error.message}",
                remedy="Mend it, or leave it for later with --no-judge. Then give the same command again; what is done "
                "is kept.",
            )
