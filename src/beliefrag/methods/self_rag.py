"""Self-RAG*: asked before each round whether to retrieve at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.engine.model_calls import ModelCalls
from beliefrag.engine.replies import Repairs, read_line
from beliefrag.errors import ReplyError, UnreadableReply
from beliefrag.methods import METHODS, TypicalCost
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.models.protocol import ChatReply
from beliefrag.prompts import escape, evidence_block
from beliefrag.types import Decision

__all__ = ["SelfRag"]


@METHODS.register(
    "self_rag",
    title="Self-RAG*",
    summary="Asks the model before each round whether to search.",
    cost=TypicalCost(4, 3_000, 30),
)
@dataclass(frozen=True, slots=True)
class SelfRag:
    """The retrieve/no-retrieve trigger of Self-RAG alone (Asai et al., 2024): hence the star in its title.

    The original is a model trained to emit reflection tokens for retrieval, relevance, support and usefulness, with a
    search over candidate segments. Here an untrained model is asked yes or no, and only whether to retrieve. A reply
    that is neither, twice, means yes.
    """

    name: ClassVar[str] = "self_rag"

    def begin(self) -> Controller:
        """A controller that remembers the latest yes or no."""
        return _Controller()


class _Controller:
    def __init__(self) -> None:
        self._wanted = True

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        if can_search(view):
            fields = {"question": escape(view.question.text), "evidence": evidence_block(view.answer_window)}
            try:
                self._wanted = await calls.ask("trigger", "trigger", fields, _read_yes_or_no)
            except UnreadableReply:
                self._wanted = True
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        if not self._wanted:
            return answer(view, "the trigger says that no search is needed")
        if can_search(view):
            return search(view, "the trigger asks for a search")
        if view.nothing_missing:
            return answer(view, "the query writer finds nothing left to search for")
        return stop(view)


def _read_yes_or_no(reply: ChatReply, repairs: Repairs) -> bool:
    found = re.match(r"\W*(yes|no)\b", read_line(reply.text), re.IGNORECASE)
    if found is None:
        raise ReplyError("The reply is neither yes nor no.")
    return found.group(1).lower() == "yes"
