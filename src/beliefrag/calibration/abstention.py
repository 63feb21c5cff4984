"""Finds the guarantee that somebody asks for, or says in one line why there is none here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from beliefrag.calibration.artifact import Artifact
from beliefrag.calibration.guarantee import Guarantee, target_words
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.policy import Thresholds
from beliefrag.types import Budget

__all__ = ["apply_guarantee", "select_guarantee"]


def select_guarantee(
    artifact: Artifact,
    *,
    max_error: float,
    confidence: float,
    thresholds: Thresholds,
    budget: Budget,
    prompts: Mapping[str, str],
    calibration_warnings: Sequence[str],
) -> Guarantee:
    """The artifact's guarantee for that target, if it holds for this policy.

    Args:
        artifact: The calibration in use.
        max_error: The largest share of wrong answers among those given.
        confidence: How surely.
        thresholds: Those of the policy in use.
        budget: What an episode may spend.
        prompts: Hash of each prompt in use.
        calibration_warnings: Why the artifact's probabilities may be off here.

    Raises:
        CalibrationError: There is no such guarantee, no threshold met the target, or it holds for something else.
        SettingsError: A setting contradicts it.
    """
    target = target_words(max_error, confidence)
    command = f"beliefrag calibrate risk FILE RUN --max-error {max_error:g} --confidence {confidence:g}"
    if thresholds.least_answerability is not None:
        raise SettingsError(
            f"max_error {max_error:g} sets the least answerability, and thresholds.least_answerability "
            f"{thresholds.least_answerability:g} is set too.",
            remedy="Set one of them.",
        )
    if not thresholds.abstain:
        raise SettingsError(
            f"Never abstaining leaves no way to keep to max_error {max_error:g}.", remedy="Set one or the other."
        )
    if calibration_warnings:
        raise CalibrationError(
            f"The calibration {artifact.name} carries no guarantee here: {'; '.join(calibration_warnings)}.",
            remedy="Ask without --max-error, or with a calibration that was fitted for just this.",
        )
    found = next((each for each in artifact.guarantees if each.has_target(max_error, confidence)), None)
    if found is None:
        others = ", ".join(target_words(each.max_error, each.confidence) for each in artifact.guarantees)
        raise CalibrationError(
            f"The calibration {artifact.name} has no guarantee of {target}; it has {others or 'none at all'}.",
            remedy=f"Make it: {command}",
        )
    if found.threshold is None:
        raise CalibrationError(
            f"No threshold met {target} on the {found.questions:,} questions of {' and '.join(found.datasets)}.",
            remedy=f"Allow more errors, or choose again on more questions: {command}",
        )
    if changed := "; ".join(found.differences(thresholds, budget, prompts)):
        raise CalibrationError(
            f"The guarantee of {target} was made for another policy: {changed}.",
            remedy=f"Use those settings, or make it again for these: {command}",
        )
    return found


def apply_guarantee(thresholds: Thresholds, guarantee: Guarantee | None) -> Thresholds:
    """The thresholds with the guarantee's own among them; unchanged without one."""
    return replace(thresholds, least_answerability=guarantee.threshold) if guarantee else thresholds
