"""Plays the episodes of a run, several at a time, and puts each on disk as soon as it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from beliefrag.bench.jobs import Jobs
from beliefrag.bench.plan import Plan
from beliefrag.bench.player import EpisodeLost, Player
from beliefrag.errors import TransportError
from beliefrag.record import Episode, EpisodeKey, EpisodeSummary, Verdict
from beliefrag.runs.run_errors import RunError
from beliefrag.runs.run_files import EpisodeLog

__all__ = ["GIVE_UP_AFTER", "CircuitBreaker", "RunControl", "Runner", "Tally", "episodes_for"]

GIVE_UP_AFTER = 24
"""A run is given up after this many failures one after another with no success in between."""


def episodes_for(calls: int) -> int:
    """Says how many episodes must run at a time to keep the given number of calls under way.

    An episode that searches, waits for the cache or is written down makes no call. A quarter more of them fills its
    place; where calls are made one by one, episodes are too.
    """
    return calls + calls // 4


@dataclass(frozen=True, slots=True)
class Tally:
    """What a run came to this time."""

    finished: int = 0
    failed: int = 0
    unjudged: int = 0
    """How many of the finished episodes the judge failed on."""
    trouble: str = ""
    """Why the latest episode failed, or could not be judged."""
    stopped: bool = False
    """Whether it ended before everything was done, because somebody asked for it."""
    cancelled: bool = False
    """Whether the episodes that were under way were dropped."""


class RunControl:
    """Ends a run from another thread or from a signal handler. What is on disk stays, and the run can go on later."""

    def __init__(self) -> None:
        self.is_stopping = False
        self.is_cancelled = False
        self._cancel: Callable[[], object] = lambda: None

    def stop(self) -> None:
        """Begins no further episode; those under way are finished."""
        self.is_stopping = True

    def cancel(self) -> None:
        """Drops the episodes under way, and ends at once."""
        self.is_stopping = self.is_cancelled = True
        self._cancel()

    def attach(self, task: asyncio.Task[object], events: asyncio.AbstractEventLoop) -> None:
        """Makes `cancel` end this task."""
        self._cancel = lambda: events.call_soon_threadsafe(task.cancel)
        if self.is_cancelled:
            self._cancel()

    def detach(self) -> None:
        """Makes `cancel` end nothing any more."""
        self._cancel = lambda: None


@dataclass(slots=True)
class CircuitBreaker:
    """Counts failures since the last success, to end a run whose server is gone.

    What fails every time, such as a method that needs what the model does not give, must block nothing else.
    """

    length: int = 0
    """The failures that count, since the last success."""
    _any_success: bool = False

    @property
    def is_open(self) -> bool:
        """Whether to give up."""
        return self.length >= GIVE_UP_AFTER

    def record_success(self) -> None:
        """Ends the series of failures."""
        self.length = 0
        self._any_success = True

    def record_failure(self, cause: str, *, before: str, replies: int) -> None:
        """Takes in a failure.

        One with the cause that the same episode failed with before is no news: counted, a few dozen of them would end
        every attempt to go on. It counts all the same where the server gave no usable reply, and where there is no sign
        yet that the model is there at all.

        Args:
            cause: Why it failed now.
            before: Why it failed when it was last tried; empty if it did not, or was not.
            replies: How many the model gave before it failed.
        """
        known = cause == before and cause != TransportError.__name__
        if not (known and (self._any_success or replies)):
            self.length += 1


class Runner:
    """Plays what a plan asks for.

    Args:
        player: Plays the episodes, in this process or on workers.
        log: Where episodes go. Nobody but this process writes there, wherever the episodes are played.
        at_once: How many episodes at a time. How many calls are made at a time is up to the model's own limit.
        on_episode: Called with each episode that is on disk.
        patient: Whether to go on after many failures in a row, as a replay with missing replies does.
        control: Lets somebody end the run early.
    """

    def __init__(
        self,
        player: Player,
        log: EpisodeLog,
        *,
        at_once: int,
        on_episode: Callable[[EpisodeSummary], object] = lambda _: None,
        patient: bool = False,
        control: RunControl | None = None,
    ) -> None:
        self._player = player
        self._log = log
        self._at_once = at_once
        self._on_episode = on_episode
        self._patient = patient
        self._control = control or RunControl()
        self._failures = CircuitBreaker()
        self._judge_failures = CircuitBreaker()
        self._tally = Tally()

    async def run(self, plan: Plan) -> Tally:
        """Plays and judges what is left.

        Raises:
            RunError: Nothing can be written, or everything fails.
        """
        task = asyncio.current_task()
        assert task is not None
        self._control.attach(task, asyncio.get_running_loop())
        jobs = Jobs(plan, lanes=self._player.lanes)
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(min(self._at_once, plan.left)):
                    group.create_task(self._work(jobs, number % self._player.lanes))
        except BaseExceptionGroup as errors:
            # One is enough to say why the run ended; the others were cancelled or failed for the same reason.
            raise errors.exceptions[0] from None
        except asyncio.CancelledError:
            if not self._control.is_cancelled:
                raise
            return replace(self._tally, stopped=True, cancelled=True)
        finally:
            self._control.detach()
        return replace(self._tally, stopped=bool(jobs))

    async def _work(self, jobs: Jobs, lane: int) -> None:
        while not self._control.is_stopping and (job := jobs.take(lane)) is not None:
            recorded = self._log.episode(job.key) if job.only_judge else None
            try:
                episode = await self._player.play(job.key, recorded, lane)
            except EpisodeLost as lost:
                trouble = f"{lost.message} {lost.remedy}".rstrip()
                self._tally = replace(self._tally, failed=self._tally.failed + 1, trouble=trouble)
                continue
            await self._log.append(episode)
            self._on_episode(episode.summary())
            self._count_episode(episode)
            self._count_verdict(job.key, episode.verdict)

    def _count_episode(self, episode: Episode) -> None:
        error = episode.error
        if error is None:
            self._tally = replace(self._tally, finished=self._tally.finished + 1)
            self._failures.record_success()
            return
        trouble = f"{error.message} {error.remedy}".rstrip()
        self._tally = replace(self._tally, failed=self._tally.failed + 1, trouble=trouble)
        before = self._log.summaries.get(episode.key)
        self._failures.record_failure(error.cause, before=before.cause if before else "", replies=episode.usage.calls)
        if self._failures.is_open and not self._patient:
            raise RunError(
                f"The last {self._failures.length} episodes failed, the latest one so: {error.message}",
                remedy=f"{error.remedy} Then give the same command again; what is done is kept.".lstrip(),
            )

    def _count_verdict(self, key: EpisodeKey, verdict: Verdict | None) -> None:
        # An abstention is wrong without asking: it says nothing about the judge.
        if verdict is None or not (verdict.usage.calls or verdict.error):
            return
        if verdict.error is None:
            self._judge_failures.record_success()
            return
        self._tally = replace(self._tally, unjudged=self._tally.unjudged + 1, trouble=verdict.error.message)
        before = self._log.summaries.get(key)
        self._judge_failures.record_failure(
            verdict.error.cause, before=before.judge_failure if before else "", replies=verdict.usage.calls
        )
        if self._judge_failures.is_open and not self._patient:
            raise RunError(
                f"The judge failed on the last {self._judge_failures.length} answers, the latest one so: "
                f"{verdict.error.message}",
                remedy="Mend it, or leave it for later with --no-judge. Then give the same command again; what is done "
                "is kept.",
            )
