"""Adaptive-k: one search, cut where the scores fall most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from beliefrag.engine.controller import Measurement, View
from beliefrag.methods import METHODS, TypicalCost
from beliefrag.methods.decisions import FixedSchedule, answer, can_search, search, stop
from beliefrag.types import Decision


@METHODS.register(
    "adaptive_k",
    title="Adaptive-k",
    summary="Searches once and keeps the passages above the largest drop in score.",
    cost=TypicalCost(1, 1_030, 5),
    thresholds_from="the authors' values for question answering",
)
@dataclass(frozen=True, slots=True)
class AdaptiveK(FixedSchedule):
    """Fetches a deep list of candidates once and keeps those above the largest drop of their scores.

    After Taguchi et al. (2025), who measure similarities of embeddings over all passages and read a long context. Here
    the scores are the shared retriever's, and no more passages are kept than the answer prompt shows.
    """

    name: ClassVar[str] = "adaptive_k"
    depth: int = 50
    """How many candidates are fetched."""
    buffer: int = 5
    """Passages kept below the drop as well."""
    tail: float = 0.1
    """The share of the drops, at the end of the list, that cannot be the cut: the last scores often fall far."""

    def __post_init__(self) -> None:
        if self.depth < 1 or self.buffer < 0 or not 0.0 <= self.tail < 1.0:
            raise ValueError(
                f"a cut needs a depth of at least 1, a buffer of at least 0 and a tail from 0 to below 1, not {self}"
            )

    def keep(self, scores: Sequence[float]) -> int:
        """Return how many to keep: those above the first of the largest drops, or all where no score falls."""
        drops = [upper - lower for upper, lower in pairwise(scores)]
        drops = drops[: len(drops) - int(len(drops) * self.tail)]
        if not drops or max(drops) <= 0.0:
            return len(scores)
        return min(len(scores), drops.index(max(drops)) + 1 + self.buffer)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        """RETRIEVE with a cut, then ANSWER."""
        if view.queries:
            return answer(view, "one-search")
        return search(view, "largest-drop", cut=self) if can_search(view) else stop(view)
