"""The study of what information is in the belief state."""

from beliefrag.studies.belief.study import BELIEF

__all__ = ["BELIEF"]
