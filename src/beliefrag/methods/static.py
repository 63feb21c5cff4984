"""Static: retrieve once, answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.controller import Measurement, View
from beliefrag.methods import METHODS, TypicalCost
from beliefrag.methods.decisions import FixedSchedule, answer, can_search, search, stop
from beliefrag.types import Decision


@METHODS.register(
    "static", title="Static", summary="Searches once for the question, then answers.", cost=TypicalCost(1, 880, 6)
)
@dataclass(frozen=True, slots=True)
class Static(FixedSchedule):
    """Searches for the question and answers from the top-k (Lewis et al., 2020, with a frozen retriever)."""

    name: ClassVar[str] = "static"

    def decide(self, view: View, measurement: Measurement) -> Decision:
        """RETRIEVE, then ANSWER."""
        if view.queries:
            return answer(view, "one-search")
        return search(view, "once") if can_search(view) else stop(view)
