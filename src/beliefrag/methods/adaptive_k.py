"""Adaptive-k: one search, cut where the scores fall most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.methods import METHODS, TypicalCost
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.types import Decision


@dataclass(frozen=True, slots=True)
class LargestDrop:
    """Keeps what is above the largest drop between neighbours in the list of scores.

    Of equal drops the first counts. Where the scores do not fall at all no place to cut exists, and all is kept.
    """

    depth: int = 50
    buffer: int = 5
    """Passages kept below the drop as well."""
    tail: float = 0.1
    """The share of the drops, at the end of the list, that cannot be the cut: the last scores often fall far."""
    name: str = "largest-drop"

    def __post_init__(self) -> None:
        if self.depth < 1 or self.buffer < 0 or not 0.0 <= self.tail < 1.0:
            raise ValueError(
                f"a cut needs a depth of at least 1, a buffer of at least 0 and a tail from 0 to below 1, not {self}"
            )

    def keep(self, scores: Sequence[float]) -> int:
        """Return how many to keep."""
        drops = [upper - lower for upper, lower in pairwise(scores)]
        drops = drops[: len(drops) - int(len(drops) * self.tail)]
        if not drops or max(drops) <= 0.0:
            return len(scores)
        return min(len(scores), drops.index(max(drops)) + 1 + self.buffer)


@METHODS.register(
    "adaptive_k",
    title="Adaptive-k",
    summary="Searches once and keeps the passages above the largest drop in score.",
    cost=TypicalCost(1, 1_030, 5),
    thresholds_from="the authors' values for question answering",
)
@dataclass(frozen=True, slots=True)
class AdaptiveK:
    """Fetches a deep list of candidates once and lets their scores say how many to keep (Taguchi et al., 2025).

    As in the original's experiments, five passages below the drop are kept too, and the last tenth of the drops cannot
    be the cut. The original measures cosine similarity between embeddings, over all passages, and reads a long context;
    here the scores are the shared retriever's, over the best 50, and no more passages are kept than the answer prompt
    shows.
    """

    name: ClassVar[str] = "adaptive_k"
    depth: int = 50
    """How many candidates are fetched."""
    buffer: int = 5
    """Passages kept below the drop as well."""
    tail: float = 0.1
    """The share of the drops, at the end of the list, that cannot be the cut."""

    def __post_init__(self) -> None:
        LargestDrop(self.depth, self.buffer, self.tail)

    @property
    def cut(self) -> LargestDrop:
        """The rule by which the list is cut."""
        return LargestDrop(self.depth, self.buffer, self.tail)

    def begin(self) -> Controller:
        """Return this object itself: it keeps no state between steps."""
        return self

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        """Measure nothing."""
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        """RETRIEVE with a cut, then ANSWER."""
        if view.queries:
            return answer(view, "one-search")
        return search(view, "largest-drop", cut=self.cut) if can_search(view) else stop(view)
