"""How good a calibration is on recorded states of questions that it was neither fitted nor chosen on."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.calibration import Artifact
from beliefrag.calibration.answerability_fit import alone
from beliefrag.calibration.collection import Collection
from beliefrag.calibration.evaluation import answerabilities, checked_quality
from beliefrag.calibration.examples import Examples, answerable_states
from beliefrag.calibration.report import CheckedQuality
from beliefrag.errors import CalibrationError
from beliefrag.runs.states import Label

__all__ = ["Unseen", "check_artifact", "unseen_states"]


@dataclass(frozen=True, slots=True)
class Unseen:
    """A calibration on states that it has not seen."""

    seen: int
    """Questions that were left out, because it was fitted or chosen on them."""
    base_rate: float
    """What somebody would always say who has no calibration: the share among the fitted states, where that is known.

    It is a soft mark where these states are of other datasets; their own share is in each quality beside it.
    """
    own_base_rate: bool
    """False where the artifact does not tell the share, so that it is taken from these states themselves."""
    overall: CheckedQuality
    datasets: dict[str, CheckedQuality]
    alone: dict[str, float]
    """AUC of each diagnostic by itself."""


def check_artifact(artifact: Artifact, collection: Collection, label: Label) -> Unseen:
    """Its quality on the states with evidence and a label, over all and for each dataset.

    Raises:
        CalibrationError: No such state is left, or all came out alike.
    """
    examples, seen = unseen_states(collection, label, artifact)
    told = artifact.fit.answerability.base_rate if artifact.fit else None
    base_rate = examples.rate if told is None else told

    def measured(some: Examples) -> CheckedQuality:
        return checked_quality(answerabilities(some, artifact.answerability.function()), some, base_rate)

    names = sorted({example.dataset for example in examples.each})
    return Unseen(
        seen=seen,
        base_rate=base_rate,
        own_base_rate=told is not None,
        overall=measured(examples),
        datasets={name: measured(Examples(e for e in examples.each if e.dataset == name)) for name in names},
        alone=alone(examples),
    )


def unseen_states(collection: Collection, label: Label, *artifacts: Artifact) -> tuple[Examples, int]:
    """The states that none of the calibrations has seen, and how many questions were left out for that.

    Raises:
        CalibrationError: No such state is left, or all came out alike.
    """
    everything, _ = answerable_states(collection.trajectories, label)
    seen = {question for artifact in artifacts for question in artifact.seen(everything.question_ids)}
    examples = Examples(example for example in everything.each if example.question_id not in seen)
    if not len(examples):
        raise CalibrationError(
            f"No state is left to compare on: {len(seen)} questions were seen by a fit.",
            remedy="Collect states of other questions, or take another --label.",
        )
    if not examples.mixed:
        raise CalibrationError(
            f"All {len(examples)} states came out alike by {label}: there is nothing to tell apart.",
            remedy="Collect states of more questions, or take another --label.",
        )
    return examples, len(seen)
