"""Rows needed, read and found: the numbers of one method on questions about sets of rows (SPEC 10.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from beliefrag.bench.metrics import recall_per_row_read
from beliefrag.calibration.quality import Floats
from beliefrag.runs.statistics import Estimate, estimate_from_resamples, mean_estimate, resample_means
from beliefrag.studies.recording import Recording

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
    def efficiency(self) -> Estimate | None:
        """Row recall per row read, times 1,000; None where nothing was read."""
        return per_row_read(self.values["row_recall_read"], self.values["rows_read"])

    def more_efficient(self, other: Rows) -> Estimate | None:
        """By how much that lies above another method's, on the same questions; None where either read nothing."""
        (own, drawn), (theirs, drawn_theirs) = (
            _ratios(each.values["row_recall_read"], each.values["rows_read"]) for each in (self, other)
        )
        return _bounded(own - theirs, drawn - drawn_theirs, len(self.values["rows_read"]))


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


def ceiling(needed: Mapping[str, float], rows: int) -> Estimate:
    """The row recall that nobody can exceed who may read so many rows: the mean of min(1, rows / needed)."""
    return mean_estimate({key: min(1.0, rows / value) for key, value in needed.items()}).without_flat_interval()


def per_row_read(recall: Mapping[str, float], read: Mapping[str, float]) -> Estimate | None:
    """Mean recall divided by mean rows read, times 1,000, with its interval: both are resampled together."""
    value, drawn = _ratios(recall, read)
    return _bounded(value, drawn, len(recall))


def _ratios(recall: Mapping[str, float], read: Mapping[str, float]) -> tuple[float, Floats]:
    """The ratio of means and its resamples; not a number where nothing was read. All ratios draw the same questions."""
    ids = sorted(recall)
    table = np.array([[recall[key], read[key]] for key in ids], dtype=np.float64)
    means = np.concatenate([table.mean(axis=0)[None, :], resample_means(table)])
    ratios = np.array([recall_per_row_read(*pair) if pair[1] > 0 else np.nan for pair in means])
    return float(ratios[0]), ratios[1:]


def _bounded(value: float, drawn: Floats, questions: int) -> Estimate | None:
    if not np.isfinite(value):
        return None
    if questions < 2:
        return Estimate(value, questions=questions)
    return estimate_from_resamples(value, drawn, questions=questions)
