"""The study of imperfect evidence: irrelevant passages, false ones, and another source."""

from beliefrag.studies.robustness.study import ROBUSTNESS

__all__ = ["ROBUSTNESS"]
