"""What can be wrong with benchmark data."""

from __future__ import annotations

from beliefrag.errors import BeliefRAGError

__all__ = ["DataError", "UnequalQuestions"]


class DataError(BeliefRAGError):
    """A benchmark file cannot be read, is not what it is said to be, or does not fit together."""


class UnequalQuestions(BeliefRAGError):
    """A paired comparison was asked for, and the two sides did not see the same questions."""
