"""What a fit learns from: states with the outcome that is to be predicted, in an order that no file changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from beliefrag.calibration.artifact import PartCount
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.states import Label, State, Trajectory
from beliefrag.runs.statistics import MEAN_RESAMPLES, Floats, resample_weights
from beliefrag.types import Action

__all__ = ["Example", "Examples", "LeftOut", "label_searches", "label_states"]


@dataclass(frozen=True, slots=True)
class Example:
    """One state and what came of it."""

    dataset: str
    question_id: str
    state: State
    positive: bool

    @property
    def question(self) -> str:
        """Which question it belongs to: examples of one question are not independent."""
        return f"{self.dataset}/{self.question_id}"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """States that could not be learnt from."""

    without_evidence: int
    unlabelled: int


class Examples:
    """Examples as columns. They are sorted, so that the order of files and of methods changes no number."""

    def __init__(self, examples: Iterable[Example]) -> None:
        self.each: tuple[Example, ...] = tuple(
            sorted(examples, key=lambda e: (e.question, e.state.step.number, e.state.diagnostics.vector(), e.positive))
        )
        self.outcomes: Floats = np.array([float(e.positive) for e in self.each])
        self.questions: tuple[str, ...] = tuple(e.question for e in self.each)
        sizes = Counter(self.questions)
        self.weights: Floats = np.array([1 / sizes[question] for question in self.questions])
        """A question counts once: its examples share its weight."""

    def __len__(self) -> int:
        return len(self.each)

    @property
    def states(self) -> Iterator[State]:
        """The states, in order."""
        return (example.state for example in self.each)

    @property
    def question_ids(self) -> tuple[str, ...]:
        """The ids of the questions, each once."""
        return tuple(sorted({example.question_id for example in self.each}))

    @property
    def rate(self) -> float:
        """The share of positive outcomes, by weight."""
        return float(self.weights @ self.outcomes / self.weights.sum())

    @property
    def has_both_outcomes(self) -> bool:
        """Whether both outcomes are there."""
        return len({example.positive for example in self.each}) == 2

    @property
    def count(self) -> PartCount:
        """How much there is of each outcome."""
        return PartCount(
            states=len(self),
            positive=sum(example.positive for example in self.each),
            questions=len(set(self.questions)),
            questions_positive=len({example.question for example in self.each if example.positive}),
            questions_negative=len({example.question for example in self.each if not example.positive}),
        )

    def resampled_weights(self, resamples: int = MEAN_RESAMPLES) -> Iterator[Floats]:
        """Return blocks of rows of weights: a question weighs as often as it is drawn."""
        return (counts * self.weights for counts in resample_weights(self.questions, resamples=resamples))

    def resample(self, statistic: Callable[[Floats], Floats]) -> Floats:
        """Return a statistic of the weights for each resample of the questions."""
        return np.concatenate([statistic(weights) for weights in self.resampled_weights()])

    def select_part(self, part: Partition) -> Examples:
        """Return the examples whose questions are in one part of the study."""
        return Examples(example for example in self.each if partition(example.question_id) is part)


def label_states(trajectories: Sequence[Trajectory], label: Label) -> tuple[Examples, LeftOut]:
    """Return the states at which an answer was tried, as examples that are positive where the answer was right.

    States with nothing retained are left out: their diagnostics are constants of the method.
    """
    found: list[Example] = []
    bare = unlabelled = 0
    for trajectory in trajectories:
        for state in trajectory.states:
            correct = state.correct(label)
            if state.retained == 0:
                bare += 1
            elif correct is None:
                unlabelled += 1
            else:
                found.append(Example(trajectory.dataset, trajectory.question_id, state, correct))
    return Examples(found), LeftOut(bare, unlabelled)


def label_searches(
    trajectories: Sequence[Trajectory], label: Label, is_consulted: Callable[[State], bool] = lambda _: True
) -> Examples:
    """Return the unanswerable states from which a search was made, positive where the state after it was answerable.

    A search at the end of a correction is left out: nobody asked what it was worth.

    Args:
        trajectories: The recorded states.
        label: What says whether an answer was right.
        is_consulted: Whether the policy asks at a state what a search is worth. Where the query was rewritten before
            the search, that is the state before the rewriting.
    """
    return Examples(
        Example(trajectory.dataset, trajectory.question_id, before, bool(after.correct(label)))
        for trajectory in trajectories
        for place, (before, after) in enumerate(pairwise(trajectory.states))
        if before.action is Action.RETRIEVE
        and Action.VERIFY not in before.actions[-2:]
        and after.rounds > before.rounds
        and before.correct(label) is False
        and after.correct(label) is not None
        and is_consulted(trajectory.states[place - 1] if place and before.actions[-1:] == (Action.REWRITE,) else before)
    )
