"""What was fitted for a model: score scale, answerability and retrieval value, and the files that carry them."""

from beliefrag.calibration.artifact import Artifact, Calibration
from beliefrag.calibration.choice import artifact_for, load_artifact, shipped_artifacts

__all__ = ["Artifact", "Calibration", "artifact_for", "load_artifact", "shipped_artifacts"]
