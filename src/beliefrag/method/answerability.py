"""Answerability p_ans: the calibrated chance that answering now gives a correct answer (SPEC 4).

Distinct from the belief in sufficiency: that one summarises the evidence, this one is fitted to the generator's own
success and is what the answer gate compares.
"""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.method.diagnostics import sigmoid
from beliefrag.types import Diagnostics

__all__ = ["Answerability"]


@dataclass(frozen=True, slots=True)
class Answerability:
    """A fitted logistic over the seven diagnostics."""

    intercept: float
    weights: Diagnostics

    def probability(self, x: Diagnostics) -> float:
        """p_ans = sigmoid(alpha + w . x)."""
        return sigmoid(
            self.intercept + sum(w * v for w, v in zip(self.weights.vector(), x.vector(), strict=True)),
        )
