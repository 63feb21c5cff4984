"""Deals out what a run has to do, so that the episodes of one question are played in one place."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from beliefrag.bench.plan import Plan
from beliefrag.record import EpisodeKey

__all__ = ["Job", "Jobs"]


class Job(NamedTuple):
    """One episode that something is to be done with."""

    key: EpisodeKey
    only_judge: bool
    """Whether it was played before, and lacks a verdict."""


class Jobs:
    """The jobs of a plan in their order, for one or several lanes.

    Methods ask much the same about one question. A lane that begins a question gets all its episodes that come next, so
    that equal requests meet in one process and are paid for once. A lane without work takes over what waits elsewhere.

    Args:
        plan: What is to be done.
        lanes: How many places play episodes.
    """

    def __init__(self, plan: Plan, *, lanes: int) -> None:
        # A judge that fails on what was played before must not keep anything from being played.
        played = (Job(key, only_judge=False) for key in plan.to_play)
        self._waiting = deque([*played, *(Job(key, only_judge=True) for key in plan.to_judge)])
        self._reserved: list[deque[Job]] = [deque() for _ in range(lanes)]

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._reserved))

    def take(self, lane: int) -> Job | None:
        """The next job of a lane; None when there is none left."""
        own = self._reserved[lane]
        if own:
            return own.popleft()
        if not self._waiting:
            fullest = max(self._reserved, key=len)
            return fullest.pop() if fullest else None
        job = self._waiting.popleft()
        while self._waiting and _question_of(self._waiting[0]) == _question_of(job):
            own.append(self._waiting.popleft())
        return job


def _question_of(job: Job) -> tuple[str, str]:
    return job.key.dataset, job.key.question_id
