"""What can be wrong when a study is to be made."""

from __future__ import annotations

from beliefrag.errors import BeliefRAGError

__all__ = ["StudyError"]


class StudyError(BeliefRAGError):
    """A study lacks runs, datasets or methods that it needs, or its files cannot be written."""
