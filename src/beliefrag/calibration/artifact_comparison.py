"""Two artifacts on the same recorded states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from beliefrag.calibration import Artifact
from beliefrag.calibration.collection import Collection
from beliefrag.calibration.evaluation import answerabilities
from beliefrag.calibration.examples import Examples
from beliefrag.calibration.quality import Floats, auc, brier, expected_calibration_error
from beliefrag.calibration.unseen import unseen_states
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import Estimate, estimate_from_resamples

__all__ = ["BIASED", "Compared", "Comparison", "compare_artifacts"]

_MEASURES: Mapping[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "Brier": brier,
    "AUC": auc,
    "ECE": expected_calibration_error,
}
BIASED = frozenset({"ECE"})
"""Without an interval: resampling raises a calibration error, the more the smaller it is, so that the bias of two does
not cancel out."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One measure of both, and the first minus the second, on the same resampled questions where it has an interval."""

    first: float
    second: float
    difference: Estimate


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both artifacts on the states of questions that neither has seen."""

    states: int
    questions: int
    seen: int
    """Questions that were left out, because one of the two was fitted or chosen on them."""
    measures: Mapping[str, Compared]


def compare_artifacts(first: Artifact, second: Artifact, collection: Collection, label: Label) -> Comparison:
    """Both on the states with evidence and a label.

    Raises:
        CalibrationError: No such state is left, or all came out alike.
    """
    examples, seen = unseen_states(collection, label, first, second)
    ours, theirs = (answerabilities(examples, artifact.answerability.function()) for artifact in (first, second))
    measures = {
        name: _compared(measure, ours, theirs, examples, bounded=name not in BIASED)
        for name, measure in _MEASURES.items()
    }
    return Comparison(len(examples), len(set(examples.questions)), seen, measures)


def _compared(
    measure: Callable[[Floats, Floats, Floats], Floats],
    ours: Floats,
    theirs: Floats,
    examples: Examples,
    *,
    bounded: bool,
) -> Compared:
    one, other = (float(measure(p, examples.outcomes, examples.weights)) for p in (ours, theirs))
    if not bounded:
        return Compared(one, other, Estimate(round(one - other, 6)))
    # The same draws for both: a hard question is hard for both.
    drawn = [examples.resample(partial(measure, p, examples.outcomes)) for p in (ours, theirs)]
    return Compared(one, other, estimate_from_resamples(one - other, np.subtract(*drawn)))
