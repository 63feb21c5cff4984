"""Visited states as columns, with resamples of their questions: states of one question are not independent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from beliefrag.calibration.fitting import LEAST_SPREAD
from beliefrag.runs.states import State, Trajectory
from beliefrag.runs.statistics import MEAN_RESAMPLES, Estimate, Floats, estimate_from_resamples, resample_weights

__all__ = ["StateTable", "have_same_order", "rank_with_ties"]

_MAX_KEPT = 8_000_000
"""How many weights are kept at most: a study asks for the same ones a hundred times."""
_SAME_ORDER = 0.9995
"""With a higher rank correlation two scores differ only by the rounding of their records."""


class StateTable:
    """The states of some trajectories at which there was evidence, in an order that does not depend on a file.

    A state without evidence is left out and counted: its diagnostics are constants of the method and tell nothing.

    Args:
        trajectories: The trajectories of one method, at most one for each question.
    """

    def __init__(self, trajectories: Iterable[Trajectory]) -> None:
        ordered = sorted(trajectories, key=lambda t: (t.dataset, t.question_id))
        found = [(t.dataset, t.question_id, state) for t in ordered for state in t.states if state.retained]
        self.states: tuple[State, ...] = tuple(state for _, _, state in found)
        self.datasets: NDArray[np.str_] = np.array([dataset for dataset, _, _ in found], dtype=np.str_)
        self.questions: NDArray[np.str_] = np.array([f"{d}/{q}" for d, q, _ in found], dtype=np.str_)
        self.without_evidence = sum(len(t.states) for t in ordered) - len(found)
        self._kept: list[Floats] = []

    def __len__(self) -> int:
        return len(self.states)

    def column(self, value: Callable[[State], float]) -> Floats:
        """Return one number for each state."""
        return np.array([value(state) for state in self.states], dtype=np.float64)

    def is_in(self, dataset: str | None) -> NDArray[np.bool_]:
        """Return which states belong to a dataset; all of them for None."""
        return np.ones(len(self), dtype=np.bool_) if dataset is None else self.datasets == dataset

    def count_questions(self, dataset: str | None = None) -> int:
        """Count the questions that have a state."""
        return len(set(self.questions[self.is_in(dataset)]))

    def estimate(self, statistic: Callable[[Floats], Floats], dataset: str | None = None) -> Estimate:
        """Return a statistic of weighted states with its interval.

        Args:
            statistic: Maps rows of weights to a number for each row.
            dataset: The dataset that it is about, so that too few questions are noticed; None for all.
        """
        value = float(statistic(np.ones((1, len(self))))[0])
        drawn = np.concatenate([statistic(block) for block in self._weights()])
        fewest = min((self.count_questions(str(each)) for each in np.unique(self.datasets)), default=0)
        questions = fewest if dataset is None else self.count_questions(dataset)
        return estimate_from_resamples(value, drawn, questions=questions)

    def mean(self, column: Floats, dataset: str | None = None) -> Estimate:
        """Return the mean of a column over the states of a dataset, or over all, with its interval."""
        inside = self.is_in(dataset)
        own = column[inside]

        def means(weights: Floats) -> Floats:
            drawn = weights[:, inside]
            return np.asarray(drawn @ own / drawn.sum(axis=1))

        return self.estimate(means, dataset)

    def _weights(self) -> Iterator[Floats]:
        """Blocks of rows: how often the question of each state was drawn, within its dataset."""
        if not self._kept and MEAN_RESAMPLES * len(self) <= _MAX_KEPT:
            self._kept = list(resample_weights(self.questions, self.datasets))
        return iter(self._kept) if self._kept else resample_weights(self.questions, self.datasets)


def have_same_order(one: Floats, other: Floats) -> bool:
    """Return whether two scores put the states in the same order, apart from rounding: then they say the same."""
    if np.ptp(one) < LEAST_SPREAD or np.ptp(other) < LEAST_SPREAD:
        return False
    return bool(np.corrcoef(rank_with_ties(one), rank_with_ties(other))[0, 1] > _SAME_ORDER)


def rank_with_ties(values: Floats) -> Floats:
    """Return the rank of each value, from 1; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks
