"""Methods side by side on the questions that all of them finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from beliefrag.methods import METHODS
from beliefrag.runs.statistics import (
    Estimate,
    PairedComparison,
    compare,
    compare_over_datasets,
    mean_estimate,
    mean_over_datasets,
    pareto_front,
    share_on_front,
)
from beliefrag.runs.summary import MEAN
from beliefrag.studies.recording import Recording
from beliefrag.studies.study import StudyOptions

__all__ = ["LEAST", "Compared", "Point", "compared"]

LEAST = 2
"""Questions of a dataset: one says nothing about others."""

Values = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
"""By method, dataset, measure and question."""


@dataclass(frozen=True, slots=True)
class Point:
    """One method on one dataset, or on the mean over all."""

    method: str
    tokens: Estimate
    f1: Estimate
    front: bool


@dataclass(frozen=True, slots=True)
class Compared:
    """What the methods came to on the questions that all of them finished."""

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    values: Values
    left_out: Mapping[str, int]
    """Questions of each dataset that some method did not finish."""

    def estimate(self, method: str, dataset: str, measure: str) -> Estimate:
        """The mean of a method in one measure, on a dataset or on the mean over all."""
        own = self.values[method]
        if dataset == MEAN:
            return mean_over_datasets({name: own[name][measure] for name in self.datasets})
        return mean_estimate(own[dataset][measure])

    def places(self) -> tuple[str, ...]:
        """The mean over datasets, where there are several, and each of them."""
        return (MEAN, *self.datasets) if len(self.datasets) > 1 else self.datasets

    def front(self, dataset: str) -> dict[str, bool]:
        """Which methods are on the Pareto front."""
        cost, quality = (
            np.array([self.estimate(m, dataset, name).value for m in self.methods]) for name in ("tokens", "f1")
        )
        return dict(zip(self.methods, map(bool, pareto_front(cost, quality)), strict=True))

    def share_on_front(self, dataset: str) -> dict[str, float]:
        """For each method the share of resamples in which it is on the front."""
        names = self.datasets if dataset == MEAN else (dataset,)
        tables = {name: (self._table(name, "tokens"), self._table(name, "f1")) for name in names}
        return dict(zip(self.methods, share_on_front(tables), strict=True))

    def against(self, method: str, other: str, dataset: str) -> PairedComparison:
        """The paired difference of one method with another one."""
        if dataset == MEAN:
            return compare_over_datasets(*({d: self.values[m][d] for d in self.datasets} for m in (method, other)))
        return compare(self.values[method][dataset], self.values[other][dataset])

    def _table(self, dataset: str, measure: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        ids = sorted(self.values[self.methods[0]][dataset][measure])
        return np.array([[self.values[m][dataset][measure][key] for m in self.methods] for key in ids])


def compared(recording: Recording, asked: StudyOptions) -> Compared:
    """What a run tells about its methods: all of them, or those that were asked for."""
    run = recording.run.methods
    methods = tuple(m for m in METHODS if m in run and (not asked.methods or m in (*asked.methods, asked.of)))
    values: dict[str, dict[str, dict[str, dict[str, float]]]] = {method: {} for method in methods}
    datasets, left_out = [], {}
    for dataset in recording.datasets:
        f1 = {method: recording.values(method, dataset, "f1") for method in methods}
        shared = set.intersection(*(set(by_id) for by_id in f1.values())) if f1 else set()
        if len(shared) < LEAST:
            continue
        datasets.append(dataset)
        left_out[dataset] = len(recording.run.datasets[dataset].question_ids) - len(shared)
        for method in methods:
            tokens = recording.values(method, dataset, "tokens")
            values[method][dataset] = {
                "f1": {key: f1[method][key] for key in sorted(shared)},
                "tokens": {key: tokens[key] for key in sorted(shared)},
            }
    return Compared(methods, tuple(datasets), values, left_out)
