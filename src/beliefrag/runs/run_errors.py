"""What can be wrong with benchmark data."""

from __future__ import annotations

from beliefrag.errors import BeliefRAGError


class DataError(BeliefRAGError):
    """A benchmark file cannot be read, is not what it claims to be, or does not fit together."""


class UnequalQuestions(BeliefRAGError):
    """A paired comparison was asked for, and the two sides did not see the same questions."""


class RunError(BeliefRAGError):
    """The files of a run cannot be read or written, or the run cannot go on."""


class RunChanged(RunError):
    """A run was begun with something else than what it is asked to go on with; its numbers would be of two kinds."""
