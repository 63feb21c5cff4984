"""Two artifacts on the same recorded states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from beliefrag.calibration import Artifact
from beliefrag.calibration.quality import Floats, auc, brier, expected_calibration_error
from beliefrag.calibration.report import Interval
from beliefrag.errors import CalibrationError
from beliefrag.fitting.collection import Collection
from beliefrag.fitting.evaluation import answerabilities
from beliefrag.fitting.examples import Examples, answerable_states
from beliefrag.fitting.resampling import interval, resampled
from beliefrag.fitting.states import Label

__all__ = ["Compared", "Comparison", "compare_artifacts"]

_MEASURES: Mapping[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "Brier": brier,
    "AUC": auc,
    "ECE": expected_calibration_error,
}


@dataclass(frozen=True, slots=True)
class Compared:
    """One measure of both, and the first minus the second on the same resampled questions."""

    first: float
    second: float
    difference: Interval


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
    everything, _ = answerable_states(collection.trajectories, label)
    seen = {*first.seen(everything.question_ids), *second.seen(everything.question_ids)}
    examples = Examples(example for example in everything.each if example.question_id not in seen)
    if not len(examples):
        raise CalibrationError(
            f"No state is left to compare on: {len(seen)} questions were seen by one of the fits.",
            remedy="Collect states of other questions, or take another --label.",
        )
    if not examples.mixed:
        raise CalibrationError(
            f"All {len(examples)} states came out alike by {label}: there is nothing to tell apart.",
            remedy="Collect states of more questions, or take another --label.",
        )
    ours, theirs = (answerabilities(examples, artifact.answerability.function()) for artifact in (first, second))
    measures = {name: _compared(measure, ours, theirs, examples) for name, measure in _MEASURES.items()}
    return Comparison(len(examples), len(set(examples.questions)), len(seen), measures)


def _compared(
    measure: Callable[[Floats, Floats, Floats], Floats], ours: Floats, theirs: Floats, examples: Examples
) -> Compared:
    one, other = (float(measure(p, examples.outcomes, examples.weights)) for p in (ours, theirs))
    # The same draws for both: a hard question is hard for both.
    drawn = [resampled(examples, partial(measure, p, examples.outcomes)) for p in (ours, theirs)]
    return Compared(one, other, interval(one - other, np.subtract(*drawn)))
