"""A method: searches for the question, then for the question with a word added, and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.methods import METHODS
from beliefrag.methods.decisions import answer, can_search, search
from beliefrag.types import Decision


@METHODS.register("two_searches", title="Two searches", summary="Searches twice, then answers.")
@dataclass(frozen=True, slots=True)
class TwoSearches:
    """Its fields are its options: `--method two_searches:word=who`."""

    name: ClassVar[str] = "two_searches"
    word: str = "born"

    def begin(self) -> Controller:
        """This object itself: it keeps no state between steps."""
        return self

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        """Measure nothing."""
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        """RETRIEVE twice, then ANSWER."""
        if len(view.queries) == 2 or not can_search(view):
            return answer(view, "both searches are made")
        query = f"{view.question.text} {self.word}" if view.queries else None
        return search(view, f"search {len(view.queries) + 1} of 2", query=query)
