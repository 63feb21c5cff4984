"""The states of recorded episodes: what was measured, what an answer there would have been, and whether it was right.

They are made from the steps of `Episode`s. A survey has an answer at every state; a BeliefRAG episode has one
wherever its verifier drafted it from the same passages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from beliefrag.methods import STATE_COLLECTORS
from beliefrag.policy import Spent, correction_fits
from beliefrag.record import Episode, Step
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_files import read_episode_at, read_lines
from beliefrag.types import Action, Belief, Budget, Diagnostics

Label = Literal["judge", "f1", "exact_match", "cover", "agrees"]
LABELS: tuple[Label, ...] = ("judge", "f1", "exact_match", "cover", "agrees")
"""What can say whether an answer is right. A token F1 counts from one half on."""


@dataclass(frozen=True, slots=True)
class State:
    """A moment at which a controller had to decide: its step, and what the steps before it add up to."""

    step: Step
    rounds: int
    retained: int
    flagged: int
    """How many of the retained passages the verifier would drop."""
    actions: tuple[Action, ...]
    correction_fits: bool
    nothing_missing: bool
    answerability: float | None = None
    """What the run's own calibration gave; None where it had none, as in a survey."""
    retrieval_value: float | None = None

    @property
    def diagnostics(self) -> Diagnostics:
        """What was measured."""
        assert self.step.diagnostics is not None
        return self.step.diagnostics

    @property
    def belief(self) -> Belief:
        """The beliefs after it was measured."""
        assert self.step.belief is not None
        return self.step.belief

    @property
    def action(self) -> Action:
        """What was done next."""
        return self.step.action

    @property
    def answer(self) -> str | None:
        """The answer that ending here would have given; None if it was not asked for."""
        return self.step.attempt.answer if self.step.attempt else None

    @property
    def scores(self) -> Mapping[str, float]:
        """The scores of that answer: `f1`, `exact_match`, `cover`, and `judge` if it was judged."""
        return self.step.attempt.scores if self.step.attempt else {}

    def correct(self, label: Label) -> bool | None:
        """Return whether the answer here is right by that measure; None if it was not asked for or not judged."""
        value = self.scores.get(label)
        return None if value is None else value >= 0.5


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The states of one episode, in order."""

    dataset: str
    method: str
    question_id: str
    states: tuple[State, ...]

    @property
    def partition(self) -> Partition:
        """Whether the question is for fitting, choosing or holding out."""
        return partition(self.question_id)


def read_trajectories(folder: Path, *methods: str) -> tuple[RunRecord, list[Trajectory]]:
    """Read the record of a run and the trajectories of its finished episodes, of these methods or of all."""
    run = RunRecord.read(folder)
    latest = {
        line.summary.key: line.offset
        for line in read_lines(folder)
        if line.summary.finished and (not methods or line.summary.key.method in methods)
    }
    found = (trajectory_of(read_episode_at(folder, offset), run.budget) for offset in latest.values())
    return run, [trajectory for trajectory in found if trajectory.states]


def trajectory_of(episode: Episode, budget: Budget) -> Trajectory:
    """Return the states of one episode. A method that measures nothing has none."""
    key = episode.key
    return Trajectory(key.dataset, key.method, key.question_id, tuple(_states(episode, budget)))


def _states(episode: Episode, budget: Budget) -> Iterator[State]:
    surveyed = episode.key.method in STATE_COLLECTORS
    rounds = 0
    nothing_missing = False
    actions: tuple[Action, ...] = ()
    evidence: tuple[str, ...] = ()
    for step in episode.steps:
        if step.diagnostics is None or step.belief is None:
            return
        yield State(
            step=step,
            rounds=rounds,
            retained=len(evidence),
            flagged=len(set(evidence).intersection(step.flagged)),
            actions=actions,
            correction_fits=correction_fits(budget, Spent(rounds, len(actions), step.tokens)) and not nothing_missing,
            nothing_missing=nothing_missing,
            # A survey goes on whatever its state: the numbers that it writes down mean nothing.
            answerability=None if surveyed else step.answerability,
            retrieval_value=None if surveyed else step.retrieval_value,
        )
        if step.action is Action.RETRIEVE:
            searched = step.search is not None and step.search.was_made
            rounds += searched
            nothing_missing = not searched
        actions = (*actions, step.action)
        evidence = step.evidence
