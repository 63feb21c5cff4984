"""What can be wrong when an operating point is to be chosen from recorded states."""

from __future__ import annotations

from beliefrag.errors import BeliefRAGError

__all__ = ["OffTheRecord", "TuningError"]


class TuningError(BeliefRAGError):
    """A run's recorded states cannot be used to choose an operating point."""


class OffTheRecord(TuningError):
    """An operating point was asked for that does what nobody recorded; what it gives is not known."""
