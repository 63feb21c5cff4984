"""The decisions that methods have in common."""

from __future__ import annotations

from beliefrag.engine.controller import View
from beliefrag.policy import BEST_ANSWER
from beliefrag.types import Action, Comparison, Cut, Decision

__all__ = ["answer", "can_search", "search", "stop"]


def can_search(view: View) -> bool:
    """Says whether another search is within every limit."""
    return Action.RETRIEVE in view.legal


def search(
    view: View, reason: str, *compared: Comparison, query: str | None = None, cut: Cut | None = None
) -> Decision:
    """RETRIEVE."""
    return Decision(Action.RETRIEVE, "retrieve", reason, compared, view.legal, query=query, cut=cut)


def answer(view: View, reason: str, *compared: Comparison, answer: str | None = None) -> Decision:
    """ANSWER: the method has done all that it set out to do."""
    return Decision(Action.ANSWER, "answer", reason, compared, view.legal, answer=answer)


def stop(view: View) -> Decision:
    """STOP: the method would have gone on, and no limit allows it."""
    reason = f"no search is left within the budget{BEST_ANSWER}"
    return Decision(Action.STOP, "stop", reason, legal=view.legal)
