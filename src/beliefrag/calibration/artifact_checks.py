"""How good one artifact is, and how two compare, on recorded states of questions that they have not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from beliefrag.calibration import Artifact
from beliefrag.calibration.artifact import QualityOnOtherStates
from beliefrag.calibration.collection import StateCollection
from beliefrag.calibration.examples import Examples, label_states
from beliefrag.calibration.fitting import measure_each_diagnostic
from beliefrag.calibration.quality import (
    Floats,
    auc,
    brier,
    expected_calibration_error,
    measure_checked_quality,
    predict_answerability,
)
from beliefrag.errors import CalibrationError
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import Estimate, estimate_from_resamples

__all__ = [
    "BIASED",
    "ArtifactCheck",
    "ArtifactComparison",
    "MeasureComparison",
    "check_artifact",
    "compare_artifacts",
    "select_unseen_states",
]


@dataclass(frozen=True, slots=True)
class ArtifactCheck:
    """A calibration on states that it has not seen."""

    left_out: int
    """How many questions were left out, because it was fitted or chosen on them."""
    base_rate: float
    """What one would always say without a calibration: the share among the fitted states, where that is known.

    It is a soft mark where these states are of other datasets; their own share is in each quality beside it.
    """
    has_own_base_rate: bool
    """False where the artifact does not give this share; then it is that of these states."""
    overall: QualityOnOtherStates
    datasets: dict[str, QualityOnOtherStates]
    diagnostic_aucs: dict[str, float]
    """AUC of each diagnostic by itself."""


def check_artifact(artifact: Artifact, collection: StateCollection, label: Label) -> ArtifactCheck:
    """Measure its quality on the states with evidence and a label, over all datasets and for each of them.

    Raises:
        CalibrationError: No such state is left, or all came out alike.
    """
    examples, seen = select_unseen_states(collection, label, artifact)
    known = artifact.fit.answerability.base_rate if artifact.fit else None
    base_rate = examples.rate if known is None else known

    def measure(some: Examples) -> QualityOnOtherStates:
        return measure_checked_quality(predict_answerability(some, artifact.answerability.function()), some, base_rate)

    names = sorted({example.dataset for example in examples.each})
    return ArtifactCheck(
        left_out=seen,
        base_rate=base_rate,
        has_own_base_rate=known is not None,
        overall=measure(examples),
        datasets={name: measure(Examples(e for e in examples.each if e.dataset == name)) for name in names},
        diagnostic_aucs=measure_each_diagnostic(examples),
    )


def select_unseen_states(collection: StateCollection, label: Label, *artifacts: Artifact) -> tuple[Examples, int]:
    """Select the states that none of the calibrations has seen, and counts the questions that are left out for that.

    Raises:
        CalibrationError: No such state is left, or all came out alike.
    """
    everything, _ = label_states(collection.trajectories, label)
    seen = {question for artifact in artifacts for question in artifact.find_seen(everything.question_ids)}
    examples = Examples(example for example in everything.each if example.question_id not in seen)
    if not len(examples):
        raise CalibrationError(
            f"No state is left to compare on: {len(seen)} questions were seen by a fit.",
            remedy="Collect states of other questions, or take another --label.",
        )
    if not examples.has_both_outcomes:
        raise CalibrationError(
            f"All {len(examples)} states came out alike by {label}: there is nothing to tell apart.",
            remedy="Collect states of more questions, or take another --label.",
        )
    return examples, len(seen)


_MEASURES: Mapping[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "Brier": brier,
    "AUC": auc,
    "ECE": expected_calibration_error,
}
BIASED = frozenset({"ECE"})
"""Without an interval: resampling raises a calibration error, the more the smaller it is, so that the bias of two does
not cancel out."""


@dataclass(frozen=True, slots=True)
class MeasureComparison:
    """One measure of both, and the first minus the second, on the same resampled questions where it has an interval."""

    first: float
    second: float
    difference: Estimate


@dataclass(frozen=True, slots=True)
class ArtifactComparison:
    """Both artifacts on the states of questions that neither has seen."""

    states: int
    questions: int
    left_out: int
    """How many questions were left out, because one of the two was fitted or chosen on them."""
    measures: Mapping[str, MeasureComparison]


def compare_artifacts(
    first: Artifact, second: Artifact, collection: StateCollection, label: Label
) -> ArtifactComparison:
    """Measure both artifacts on the states with evidence and a label.

    Raises:
        CalibrationError: No such state is left, or all came out alike.
    """
    examples, seen = select_unseen_states(collection, label, first, second)
    ours, theirs = (predict_answerability(examples, artifact.answerability.function()) for artifact in (first, second))
    measures = {
        name: _compare_measure(measure, ours, theirs, examples, bounded=name not in BIASED)
        for name, measure in _MEASURES.items()
    }
    return ArtifactComparison(len(examples), len(set(examples.questions)), seen, measures)


def _compare_measure(
    measure: Callable[[Floats, Floats, Floats], Floats],
    ours: Floats,
    theirs: Floats,
    examples: Examples,
    *,
    bounded: bool,
) -> MeasureComparison:
    one, other = (float(measure(p, examples.outcomes, examples.weights)) for p in (ours, theirs))
    if not bounded:
        return MeasureComparison(one, other, Estimate(round(one - other, 6)))
    # The same draws for both: a hard question is hard for both.
    drawn = [examples.resample(partial(measure, p, examples.outcomes)) for p in (ours, theirs)]
    return MeasureComparison(one, other, estimate_from_resamples(one - other, np.subtract(*drawn)))
