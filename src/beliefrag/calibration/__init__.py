"""What was fitted for a model: score scale, answerability and retrieval value, and the files that carry them."""

from beliefrag.calibration.abstention import apply_guarantee, select_guarantee
from beliefrag.calibration.artifact import Artifact
from beliefrag.calibration.guarantee import Guarantee
from beliefrag.calibration.match import RunConditions, conditions_of_run, find_calibration_warnings, find_mismatches
from beliefrag.calibration.select import load_artifact, select_artifact, shipped_artifacts

__all__ = [
    "Artifact",
    "Guarantee",
    "RunConditions",
    "apply_guarantee",
    "conditions_of_run",
    "find_calibration_warnings",
    "find_mismatches",
    "load_artifact",
    "select_artifact",
    "select_guarantee",
    "shipped_artifacts",
]
