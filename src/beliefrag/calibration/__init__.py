"""What was fitted for a model: score scale, answerability and retrieval value, and the files that carry them."""

from beliefrag.calibration.abstention import guarantee_for, under_guarantee
from beliefrag.calibration.artifact import Artifact, Calibration
from beliefrag.calibration.guarantee import Guarantee
from beliefrag.calibration.match import Circumstances, doubts, mismatches
from beliefrag.calibration.select import artifact_for, load_artifact, shipped_artifacts

__all__ = [
    "Artifact",
    "Calibration",
    "Circumstances",
    "Guarantee",
    "artifact_for",
    "doubts",
    "guarantee_for",
    "load_artifact",
    "mismatches",
    "shipped_artifacts",
    "under_guarantee",
]
