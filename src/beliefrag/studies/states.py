"""Visited states as columns, with resamples of their questions: states of one question are not independent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from beliefrag.calibration.quality import Floats
from beliefrag.runs.states import State, Trajectory
from beliefrag.runs.statistics import MEAN_RESAMPLES, Estimate, estimate_from_resamples, resample_weights

__all__ = ["StateTable"]

_KEPT = 8_000_000
"""Up to so many are kept: a study asks for the same ones a hundred times."""


class StateTable:
    """The states of some trajectories at which there was evidence, in an order that no file decides.

    A state without evidence is left out and counted: its diagnostics are constants of the method and tell nothing.

    Args:
        trajectories: Of one method, at most one for each question.
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
        """One number for each state."""
        return np.array([value(state) for state in self.states], dtype=np.float64)

    def inside(self, dataset: str | None) -> NDArray[np.bool_]:
        """Which states belong to a dataset; all for None."""
        return np.ones(len(self), dtype=np.bool_) if dataset is None else self.datasets == dataset

    def count(self, dataset: str | None = None) -> int:
        """How many questions have a state."""
        return len(set(self.questions[self.inside(dataset)]))

    def weights(self) -> Iterator[Floats]:
        """Blocks of rows: how often each state's question was drawn. Questions are drawn within their dataset."""
        if not self._kept and MEAN_RESAMPLES * len(self) <= _KEPT:
            self._kept = list(self._drawn())
        return iter(self._kept) if self._kept else self._drawn()

    def _drawn(self) -> Iterator[Floats]:
        return resample_weights(self.questions, self.datasets)

    def number(self, statistic: Callable[[Floats], Floats], dataset: str | None = None) -> Estimate:
        """A statistic of weighted states with its interval.

        Args:
            statistic: From rows of weights to a number for each row.
            dataset: Which dataset it is about, so that too few questions can be told; None for all.
        """
        value = float(statistic(np.ones((1, len(self))))[0])
        drawn = np.concatenate([statistic(block) for block in self.weights()])
        questions = min((self.count(str(each)) for each in np.unique(self.datasets)), default=0)
        known = questions if dataset is None else self.count(dataset)
        return estimate_from_resamples(value, drawn, questions=known)

    def mean(self, column: Floats, dataset: str | None = None) -> Estimate:
        """The mean of a column over the states of a dataset, or over all, with its interval."""
        inside = self.inside(dataset)
        own = column[inside]

        def means(weights: Floats) -> Floats:
            drawn = weights[:, inside]
            found: Floats = np.asarray(drawn @ own / drawn.sum(axis=1))
            return found

        return self.number(means, dataset)
