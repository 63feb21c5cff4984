"""What can go wrong when something is viewed."""

from __future__ import annotations

from beliefrag.errors import BeliefRAGError

__all__ = ["NotHere", "ViewError"]


class ViewError(BeliefRAGError):
    """What was named cannot be viewed, or the page cannot be served."""


class NotHere(BeliefRAGError):
    """Something of an episode was not recorded or is not on this machine. The page says so in its place."""
