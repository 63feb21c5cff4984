"""No-RAG: the closed-book control."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.engine.model_calls import ModelCalls
from beliefrag.methods.decisions import answer
from beliefrag.types import Decision

__all__ = ["NoRag"]


@dataclass(frozen=True, slots=True)
class NoRag:
    """Answers at once from what the model knows (Brown et al., 2020).

    It is asked with the shared answer prompt, which then shows no passages: a prompt of its own would measure the
    wording along with the evidence.
    """

    name: str = "no_rag"

    def begin(self) -> Controller:
        """This very object: it has nothing to remember."""
        return self

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        """Looks at nothing."""
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        """ANSWER."""
        return answer(view, "this method answers without searching")
