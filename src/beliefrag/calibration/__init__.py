"""Fitted numbers for a model: score scale, answerability and retrieval value, and the files that hold them."""

from beliefrag.calibration.artifact import (
    Artifact,
    Guarantee,
    RunConditions,
    apply_guarantee,
    conditions_of_run,
    find_calibration_warnings,
    find_mismatches,
    load_artifact,
    saved_artifact_path,
    select_artifact,
    select_guarantee,
    shipped_artifacts,
)

__all__ = [
    "Artifact",
    "Guarantee",
    "RunConditions",
    "apply_guarantee",
    "conditions_of_run",
    "find_calibration_warnings",
    "find_mismatches",
    "load_artifact",
    "saved_artifact_path",
    "select_artifact",
    "select_guarantee",
    "shipped_artifacts",
]
