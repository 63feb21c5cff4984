"""Rows needed, read and found: the numbers of one method on questions about sets of rows (SPEC 10.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from beliefrag.bench.metrics import recall_per_row_read
from beliefrag.bench.statistics import FEW, MEAN_RESAMPLES, Estimate, mean_estimate
from beliefrag.studies.recording import Recording
from beliefrag.studies.result import Number

__all__ = ["MEASURES", "Rows", "ceiling", "per_row_read", "rows_of"]

MEASURES = ("row_recall_read", "evidence_recall", "rows_read", "rows_needed", "answer_row_recall", "tokens")
"""Of rows ever read, of rows retained at the end, how many were read and needed, of the answer's rows, and the cost."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One value of each measure for each question."""

    values: Mapping[str, Mapping[str, float]]

    def mean(self, measure: str) -> Estimate:
        """The mean with its interval."""
        return mean_estimate(self.values[measure])

    @property
    def efficiency(self) -> Number | None:
        """Row recall per row read, times 1,000; None where nothing was read."""
        return per_row_read(self.values["row_recall_read"], self.values["rows_read"])


def rows_of(recording: Recording, methods: tuple[str, ...]) -> tuple[dict[str, Rows], int]:
    """The numbers of each method on the questions that all of them finished, and how many questions are left out."""
    found = {
        method: {
            measure: {
                f"{dataset}/{key}": value
                for dataset in recording.datasets
                for key, value in recording.values(method, dataset, measure).items()
            }
            for measure in MEASURES
        }
        for method in methods
    }
    ids = [set(by_id) for own in found.values() for by_id in own.values()]
    shared = sorted(set.intersection(*ids))
    left_out = len(set.union(*ids)) - len(shared)
    return {
        method: Rows({measure: {key: by_id[key] for key in shared} for measure, by_id in own.items()})
        for method, own in found.items()
    }, left_out


def ceiling(needed: Mapping[str, float], rows: int) -> Number:
    """The row recall that nobody can exceed who may read so many rows: the mean of min(1, rows / needed)."""
    return Number.of(mean_estimate({key: min(1.0, rows / value) for key, value in needed.items()}))


def per_row_read(recall: Mapping[str, float], read: Mapping[str, float]) -> Number | None:
    """Mean recall divided by mean rows read, times 1,000, with its interval: both are resampled together."""
    ids = sorted(recall)
    table = np.array([[recall[key], read[key]] for key in ids], dtype=np.float64)
    means = table.mean(axis=0)
    if means[1] <= 0:
        return None
    value = recall_per_row_read(float(means[0]), float(means[1]))
    if len(ids) < 2:
        return Number(value)
    drawn = np.random.default_rng(0).integers(len(ids), size=(MEAN_RESAMPLES, len(ids)))
    resampled = table[drawn].mean(axis=1)
    known = resampled[resampled[:, 1] > 0]
    low, high = np.quantile(1000 * known[:, 0] / known[:, 1], [0.025, 0.975])
    return Number(value, float(low), float(high), len(ids) < FEW)
