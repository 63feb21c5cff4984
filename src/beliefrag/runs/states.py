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
from beliefrag.runs.episode import Episode
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.record import RunRecord, budget_of
from beliefrag.runs.run_files import read_lines
from beliefrag.types import Action, Belief, Budget, Diagnostics

__all__ = ["LABELS", "Label", "State", "Trajectory", "read_trajectories", "trajectory_of"]

Label = Literal["judge", "f1", "exact_match", "cover"]
LABELS: tuple[Label, ...] = ("judge", "f1", "exact_match", "cover")
"""What can say whether an answer is right. A token F1 counts from one half on."""


@dataclass(frozen=True, slots=True)
class State:
    """One moment of an episode at which a controller had to decide."""

    step: int
    diagnostics: Diagnostics
    belief: Belief
    rounds: int
    """Searches made so far."""
    retained: int
    flagged: int
    """How many of the retained passages the verifier would drop."""
    actions: tuple[Action, ...]
    """What was done before."""
    legal: tuple[Action, ...]
    correction_fits: bool
    nothing_missing: bool
    tokens: int
    """Spent so far, measuring this state included."""
    action: Action
    """What was done next."""
    reason: str
    """Why that was done, in the words that a rewriter is given."""
    answer: str | None
    """What answering here would have given; None where nobody asked."""
    answer_tokens: int
    """What that would have added to the cost."""
    scores: Mapping[str, float]
    """The scores of that answer: `f1`, `exact_match`, `cover`, and `judge` where it was judged."""
    branch: str = ""
    """Which branch of the policy decided."""
    answerability: float | None = None
    """What the run's own calibration said; None where it had none, as in a survey."""
    retrieval_value: float | None = None

    def correct(self, label: Label) -> bool | None:
        """Says whether the answer here is right by that measure; None where it was not asked for or not judged."""
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
    """Reads the record of a run and the trajectories of its finished episodes, of these methods or of all that measure.

    Raises:
        RunError: The folder holds no run, or it cannot be read.
    """
    run = RunRecord.read(folder)
    budget = budget_of(run)
    latest = {
        line.summary.key: line
        for line in read_lines(folder)
        if line.summary.finished and (not methods or line.summary.key.method in methods)
    }
    found = (trajectory_of(line.episode(), budget) for line in latest.values())
    return run, [trajectory for trajectory in found if trajectory.states]


def trajectory_of(episode: Episode, budget: Budget) -> Trajectory:
    """Gives the states of one episode. There are none where the method measures nothing."""
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
        attempt = step.attempt
        yield State(
            step=step.number,
            diagnostics=step.diagnostics,
            belief=step.belief,
            rounds=rounds,
            retained=len(evidence),
            flagged=len(set(evidence).intersection(step.flagged)),
            actions=actions,
            legal=step.legal,
            correction_fits=correction_fits(budget, Spent(rounds, len(actions), step.tokens)) and not nothing_missing,
            nothing_missing=nothing_missing,
            tokens=step.tokens,
            action=step.action,
            reason=step.reason,
            answer=attempt.answer if attempt else None,
            answer_tokens=attempt.tokens if attempt else 0,
            scores=attempt.scores if attempt else {},
            branch=step.branch,
            # A survey goes on whatever its state: it writes down a number that stands for nothing.
            answerability=None if surveyed else step.answerability,
            retrieval_value=None if surveyed else step.retrieval_value,
        )
        if step.action is Action.RETRIEVE:
            searched = step.search is not None and step.search.was_made
            rounds += searched
            nothing_missing = not searched
        actions = (*actions, step.action)
        evidence = step.evidence
