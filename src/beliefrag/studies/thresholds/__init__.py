"""The study of what thresholds mean: the scale of the scores, and which gates are ever reached."""

from beliefrag.studies.thresholds.study import THRESHOLDS

__all__ = ["THRESHOLDS"]
