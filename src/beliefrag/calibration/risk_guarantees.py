"""Guarantees for an artifact from a recorded run: chosen on its held-out questions, with all that they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from beliefrag.calibration import (
    Artifact,
    Guarantee,
    conditions_of_run,
    find_calibration_warnings,
    find_mismatches,
    load_artifact,
)
from beliefrag.calibration.risk import METHOD, choose_threshold
from beliefrag.calibration.risk_points import RiskPoints
from beliefrag.errors import CalibrationError
from beliefrag.policy import Thresholds
from beliefrag.runs.record import RunRecord, budget_of, now
from beliefrag.runs.states import Label
from beliefrag.verifiers import build_verifier

__all__ = ["artifact_of_run", "guarantees_from", "with_guarantees"]

_EPISODE_PROMPTS = ("system", "query_writer", "rewriter", "answer")
"""What shapes an episode beside the prompts of its verifier form."""


def artifact_of_run(name_or_path: str, run: RunRecord) -> Artifact:
    """The artifact, if the run was recorded with what it was fitted for.

    Raises:
        CalibrationError: There is no such artifact, or the run was recorded with something else.
    """
    artifact = load_artifact(name_or_path)
    # Nobody borrowed it here: what does not fit is told as that, and doubts only where all fits.
    conditions = conditions_of_run(run)
    if reasons := find_mismatches(artifact, conditions) or find_calibration_warnings(artifact, conditions):
        raise CalibrationError(
            f"The calibration {artifact.name} can carry no guarantee from this run: {'; '.join(reasons)}.",
            remedy="Fit one for the model, verifier form, prompts and retriever of the run.",
        )
    return artifact


def guarantees_from(
    found: RiskPoints,
    run: RunRecord,
    *,
    targets: Sequence[float],
    confidence: float,
    label: Label,
    thresholds: Thresholds,
) -> tuple[Guarantee, ...]:
    """One guarantee for each target. Each holds with the confidence by itself, not all of them at once."""
    names = {*_EPISODE_PROMPTS, *build_verifier(run.verifier).prompts}
    guarantees = []
    for max_error in targets:
        choice = choose_threshold(found.points, max_error=max_error, confidence=confidence)
        guarantees.append(
            Guarantee(
                max_error=max_error,
                confidence=confidence,
                threshold=choice.threshold,
                questions=len(found.points),
                answered=choice.answered,
                wrong=choice.wrong,
                label=label,
                datasets={name: run.datasets[name].fingerprint for name in found.datasets},
                method=METHOD,
                thresholds=replace(thresholds, least_answerability=None),
                budget=budget_of(run),
                prompts={name: digest for name, digest in run.prompts.items() if name in names},
                made=now(),
            )
        )
    return tuple(guarantees)


def with_guarantees(artifact: Artifact, guarantees: Sequence[Guarantee]) -> Artifact:
    """The artifact with these guarantees, each in the place of an earlier one for the same target."""
    kept = [
        old
        for old in artifact.guarantees
        if not any(old.has_target(new.max_error, new.confidence) for new in guarantees)
    ]
    return artifact.model_copy(update={"guarantees": (*kept, *guarantees)})
