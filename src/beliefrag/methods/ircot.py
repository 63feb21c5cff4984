"""IRCoT: each sentence of the reasoning is the next query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.errors import UnreadableReply
from beliefrag.methods import METHODS, TypicalCost, reasoning
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.types import Decision


@METHODS.register(
    "ircot", title="IRCoT", summary="Searches for each sentence of its reasoning.", cost=TypicalCost(3, 3_330, 52)
)
@dataclass(frozen=True, slots=True)
class IrCot:
    """Interleaves reasoning and retrieval (Trivedi et al., 2023).

    A sentence of reasoning is written in view of what was found, and searched for, until one gives the answer. The
    original shows worked examples from each dataset; here the prompt has one made-up question. As there, a separate
    reader has the last word: the shared answer prompt.
    """

    name: ClassVar[str] = "ircot"

    def begin(self) -> Controller:
        """Return a controller that remembers the reasoning."""
        return _Controller()


class _Controller:
    def __init__(self) -> None:
        self._written: list[str] = []
        self._end = ""

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        if view.queries and can_search(view):
            fields = reasoning.fields(view, calls, self._written)
            try:
                sentence = await calls.ask(
                    "reasoner", "reasoner", fields, lambda reply, _: reasoning.first_sentence(reply.text)
                )
            except UnreadableReply:
                self._end = "reasoning-incomplete"
                return Measurement()
            if reasoning.concludes(sentence):
                self._end = "reasoning-concludes"
            elif reasoning.repeats(sentence, self._written):
                self._end = "reasoning-repeats"
            self._written.append(sentence)
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        if self._end:
            return answer(view, self._end)
        if not can_search(view):
            return stop(view)
        if not view.queries:
            return search(view, "question")
        return search(view, "latest-sentence", query=self._written[-1])
