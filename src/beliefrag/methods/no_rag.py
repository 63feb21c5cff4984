"""No-RAG: the closed-book control."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.controller import Controller, Measurement, View
from beliefrag.desk import Desk
from beliefrag.methods.moves import answer
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

    async def measure(self, view: View, desk: Desk) -> Measurement:
        """Looks at nothing."""
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        """ANSWER."""
        return answer(view, "this method answers without searching")
