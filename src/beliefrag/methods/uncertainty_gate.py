"""The uncertainty gate: search only when the model is not sure of the answer it would give anyway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.errors import UnreadableReply
from beliefrag.methods import METHODS, TypicalCost
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.methods.reasoning import reply_probability
from beliefrag.models.protocol import ChatReply
from beliefrag.prompts import Repairs, escape, evidence_block, read_answer
from beliefrag.types import Comparison, Decision


@METHODS.register(
    "uncertainty_gate",
    title="Uncertainty gate",
    summary="Searches once, unless the model is sure of its own answer.",
    cost=TypicalCost(1.8, 850, 14),
    needs_token_probabilities=True,
    thresholds_from="ours, chosen on no questions",
)
@dataclass(frozen=True, slots=True)
class UncertaintyGate:
    """Answers closed-book when the model gives its own answer a high probability, else retrieves once.

    The baseline of the AdaRAGUE study (Moskvoretskii et al., 2025), which fits when to retrieve on training questions.
    Here the estimate is the probability of the whole answer, and the threshold is ours. Needs token probabilities.
    """

    name: ClassVar[str] = "uncertainty_gate"
    sure: float = 0.5

    def begin(self) -> Controller:
        """Return a controller that has not tried to answer yet."""
        return _Controller(self)


class _Controller:
    def __init__(self, method: UncertaintyGate) -> None:
        self._method = method
        self._answer: str | None = None
        self._probability = 0.0

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        # Where nothing can be searched, the answer of the gate would change nothing.
        if not view.queries and can_search(view):
            fields = {"question": escape(view.question.text), "evidence": evidence_block(())}
            try:
                self._answer, self._probability = await calls.ask("gate", "answer", fields, self._read, top_logprobs=1)
            except UnreadableReply:
                self._probability = 0.0
        return Measurement()

    def _read(self, reply: ChatReply, repairs: Repairs) -> tuple[str, float]:
        return read_answer(reply.text), reply_probability(reply, self._method.name)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        if view.queries:
            return answer(view, "one-search")
        holds = self._answer is not None and self._probability >= self._method.sure
        sure = Comparison("answer probability", self._probability, "at least", self._method.sure, holds)
        if holds:
            return answer(view, "model-sure", sure, answer=self._answer)
        if can_search(view):
            return search(view, "model-unsure", sure)
        return stop(view)
