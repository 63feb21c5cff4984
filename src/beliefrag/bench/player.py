"""Plays one episode and judges it: in this process, or wherever another `Player` does it."""

from __future__ import annotations

from typing import Protocol

from beliefrag.bench.judge import Judge
from beliefrag.bench.metrics import score_episode
from beliefrag.bench.setup import Setup
from beliefrag.engine import loop
from beliefrag.record import Episode, EpisodeKey
from beliefrag.retrieval.injection import InjectedRetriever
from beliefrag.runs.run_errors import RunError

__all__ = ["EpisodeLost", "InProcessPlayer", "Player"]


class EpisodeLost(RunError):
    """An episode came to no end, not even to a failure. Nothing of it is on disk, and the next attempt plays it."""


class Player(Protocol):
    """Plays episodes."""

    @property
    def lanes(self) -> int:
        """How many places play episodes; each has a memory of its own."""

    @property
    def missing_keys(self) -> int:
        """How many requests a replay found no reply for."""

    async def play(self, key: EpisodeKey, recorded: Episode | None, lane: int) -> Episode:
        """Plays an episode and judges it where a verdict is due.

        Args:
            key: Which one.
            recorded: The episode as it was played before, where it is only to be judged.
            lane: Where.

        Raises:
            EpisodeLost: It came to no end.
        """


class InProcessPlayer:
    """Plays episodes in this process.

    Args:
        setup: Everything opened.
    """

    lanes = 1

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    @property
    def missing_keys(self) -> int:
        """How many requests a replay found no reply for."""
        return len(self._setup.missing_keys)

    async def play(self, key: EpisodeKey, recorded: Episode | None = None, lane: int = 0) -> Episode:
        """Plays an episode, or takes the recorded one, and judges it where a verdict is due."""
        episode = recorded or await self._play(key)
        labelled = self._setup.datasets[key.dataset].questions[key.question_id]
        if self._setup.judge is not None and Judge.is_due(episode, labelled):
            return await self._setup.judge.judge_episode(episode, labelled)
        return episode

    async def _play(self, key: EpisodeKey) -> Episode:
        dataset = self._setup.datasets[key.dataset]
        labelled = dataset.questions[key.question_id]
        harness = dataset.harness_for(key.method, labelled)
        played = await loop.play(labelled.question, dataset.methods[key.method], harness)
        episode = score_episode(played, labelled, key)
        if dataset.injector is not None and isinstance(harness.retriever, InjectedRetriever):
            return dataset.injector.add_injected(episode, harness.retriever, labelled)
        return episode
