"""What is still allowed: the legal actions under the budgets (SPEC 1). Never taken from a model's reply."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.types import TERMINAL, Action, Budget

__all__ = ["Spent", "correction_fits", "legal_actions"]

_CORRECTION_CHAIN = 3
"""VERIFY, REWRITE, RETRIEVE."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What an episode has used so far."""

    rounds: int = 0
    actions: int = 0
    tokens: int = 0


def correction_fits(budget: Budget, spent: Spent) -> bool:
    """Whether a whole correction and a terminal action can still be afforded."""
    return _can_search(budget, spent) and budget.actions - spent.actions >= _CORRECTION_CHAIN + 1


def legal_actions(
    budget: Budget, spent: Spent, *, has_evidence: bool, has_query: bool, nothing_missing: bool = False
) -> tuple[Action, ...]:
    """The actions that the harness will carry out now, in the order of `Action`.

    Args:
        budget: The limits.
        spent: What is used.
        has_evidence: Whether any passage is retained; without one there is nothing to verify.
        has_query: Whether a query was issued; without one there is nothing to rewrite.
        nothing_missing: The query writer said SUFFICIENT: only terminal actions remain.
    """
    legal = set(TERMINAL)
    left = budget.actions - spent.actions
    if left > 1 and not nothing_missing:
        if has_evidence:
            legal.add(Action.VERIFY)
        if _can_search(budget, spent):
            legal.add(Action.RETRIEVE)
            # A rewritten query that can no longer be searched for is money thrown away.
            if has_query and left > 2:
                legal.add(Action.REWRITE)
    return tuple(action for action in Action if action in legal)


def _can_search(budget: Budget, spent: Spent) -> bool:
    return spent.rounds < budget.rounds and spent.tokens < budget.tokens
