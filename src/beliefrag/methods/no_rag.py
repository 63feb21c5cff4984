"""No-RAG: the closed-book control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.controller import Measurement, View
from beliefrag.methods import METHODS, TypicalCost
from beliefrag.methods.decisions import FixedSchedule, answer
from beliefrag.types import Decision


@METHODS.register(
    "no_rag",
    title="No-RAG",
    summary="Answers at once from what the model knows, without a search.",
    cost=TypicalCost(1, 170, 40),
)
@dataclass(frozen=True, slots=True)
class NoRag(FixedSchedule):
    """Answers at once from what the model knows (Brown et al., 2020).

    It is asked with the shared answer prompt, which then shows no passages: a prompt of its own would measure the
    wording along with the evidence.
    """

    name: ClassVar[str] = "no_rag"

    def decide(self, view: View, measurement: Measurement) -> Decision:
        """ANSWER."""
        return answer(view, "without-search")
