"""Retrieval value p_flip: the chance that one more retrieval makes a not-answerable state answerable (SPEC 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from beliefrag.policy.diagnostics import sigmoid

__all__ = ["FALLBACK_SCHEDULE", "FittedValue", "RetrievalValue", "ScheduledValue"]

FALLBACK_SCHEDULE: Mapping[int, float] = {0: 0.59, 1: 0.073, 2: 0.050, 3: 0.050}
"""The paper's values by rounds used, for when nothing was fitted."""


class RetrievalValue(Protocol):
    """Anything that can say what one more retrieval is worth."""

    def probability(self, *, rounds: int, novelty: float, sufficiency: float) -> float:
        """p_flip after `rounds` retrievals."""
        ...


@dataclass(frozen=True, slots=True)
class FittedValue:
    """A logistic over rounds used, novelty and the belief in sufficiency, fitted from pairs of states."""

    intercept: float
    rounds: float
    novelty: float
    sufficiency: float

    def probability(self, *, rounds: int, novelty: float, sufficiency: float) -> float:
        """p_flip = sigmoid(a + w_r r + w_N N + w_s b_suff)."""
        return sigmoid(self.intercept + self.rounds * rounds + self.novelty * novelty + self.sufficiency * sufficiency)


@dataclass(frozen=True, slots=True)
class ScheduledValue:
    """A fixed value per round; rounds beyond the schedule take its last value."""

    schedule: Mapping[int, float] = field(default_factory=lambda: dict(FALLBACK_SCHEDULE))

    def probability(self, *, rounds: int, novelty: float, sufficiency: float) -> float:
        """The scheduled value; novelty and sufficiency play no part."""
        return self.schedule[min(rounds, max(self.schedule))]
