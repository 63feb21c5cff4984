"""Where a score lies in each dataset: its median, how far medians lie apart, and where a threshold cuts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beliefrag.calibration.quality import Floats
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.states import StateTable

__all__ = ["Placed", "Scale", "quantile"]


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a score lies in one dataset, or in all."""

    median: Estimate
    middle_half: tuple[float, float, float]
    """First quartile, median and third quartile."""
    below: Estimate
    """The quantile at which the threshold falls: the share of states below it."""


def quantile(values: Floats, weights: Floats, q: float) -> Floats:
    """The weighted quantile of each row of weights: the middle of the values between which the share q is reached.

    With equal weights and q one half it is the ordinary median.
    """
    order = np.argsort(values, kind="stable")
    ordered, cumulated = values[order], np.cumsum(weights[..., order], axis=-1)
    # The tolerance keeps a share that is reached exactly from being missed by a rounding error.
    target = q * cumulated[..., -1:]
    slack = 1e-9 * np.maximum(1.0, cumulated[..., -1:])
    low = np.argmax(cumulated >= target - slack, axis=-1)
    high = np.argmax(cumulated > target + slack, axis=-1)
    # At the very end no value lies beyond.
    high = np.where(cumulated[..., -1] <= target[..., 0] + slack[..., 0], low, high)
    middle: Floats = np.asarray((ordered[low] + ordered[high]) / 2)
    return middle


class Scale:
    """One score on visited states, seen by dataset.

    Args:
        visited: The states.
        values: The score at each.
        threshold: Where a gate cuts it.
    """

    def __init__(self, visited: StateTable, values: Floats, threshold: float) -> None:
        self._visited = visited
        self._values = values
        self._threshold = threshold

    def placed(self, dataset: str | None = None) -> Placed:
        """Where the score lies in a dataset, or in all."""
        ones = np.ones((1, len(self._values)))
        low, middle, high = (float(self._quantiles(ones, dataset, q)[0]) for q in (0.25, 0.5, 0.75))
        return Placed(
            median=self._visited.number(lambda weights: self._quantiles(weights, dataset), dataset),
            middle_half=(low, middle, high),
            below=self._visited.number(lambda weights: self._below(weights, dataset), dataset),
        )

    def median_spread(self, datasets: Sequence[str]) -> Estimate:
        """The distance between the largest and the smallest median."""
        return self._visited.number(lambda weights: self.median_spreads(weights, datasets))

    def median_spreads(self, weights: Floats, datasets: Sequence[str]) -> Floats:
        """The same for each row of weights."""
        return _spread([self._quantiles(weights, dataset) for dataset in datasets])

    def below_spread(self, datasets: Sequence[str]) -> Estimate:
        """The distance between the highest and the lowest quantile at which the threshold falls."""
        return self._visited.number(lambda weights: _spread([self._below(weights, name) for name in datasets]))

    def _quantiles(self, weights: Floats, dataset: str | None, q: float = 0.5) -> Floats:
        inside = self._visited.inside(dataset)
        return quantile(self._values[inside], weights[:, inside], q)

    def _below(self, weights: Floats, dataset: str | None) -> Floats:
        inside = self._visited.inside(dataset)
        own = weights[:, inside]
        share: Floats = np.asarray(own @ (self._values[inside] < self._threshold) / own.sum(axis=1))
        return share


def _spread(columns: Sequence[Floats]) -> Floats:
    table = np.stack(columns)
    spread: Floats = np.asarray(table.max(axis=0) - table.min(axis=0))
    return spread
