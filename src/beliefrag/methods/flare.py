"""FLARE: draft the next sentence, and search when the model is not sure of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.errors import ReplyError, UnreadableReply
from beliefrag.methods import METHODS, TypicalCost, reasoning
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.methods.reasoning import Word, words
from beliefrag.models.protocol import ChatReply
from beliefrag.prompts import Repairs
from beliefrag.types import Comparison, Decision

_LONGEST_SENTENCE = 64
"""In tokens. Nothing after the first sentence is read, so nothing more is paid for."""


@METHODS.register(
    "flare",
    title="FLARE",
    summary="Searches for each drafted sentence that the model is not sure of.",
    cost=TypicalCost(3.9, 4_630, 64),
    needs_token_probabilities=True,
    thresholds_from="the authors' values for multi-hop questions (2WikiMultiHopQA)",
)
@dataclass(frozen=True, slots=True)
class Flare:
    """Forward-looking active retrieval, the direct form (Jiang et al., 2023). Needs token probabilities.

    A drafted sentence with a token below `confident` is searched for, without the words below `masked`, and drafted
    again. In the original the text that so grows is the answer; here it steers the searches, every draft sees all
    evidence, and the shared answer prompt has the last word.
    """

    name: ClassVar[str] = "flare"
    confident: float = 0.8
    masked: float = 0.4
    sentences: int = 6
    """The longest text."""

    def begin(self) -> Controller:
        """Return a controller that remembers the text."""
        return _Controller(self)


@dataclass(frozen=True, slots=True)
class _Draft:
    words: tuple[Word, ...]

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def least(self) -> float:
        return min(word.probability for word in self.words)

    def query(self, masked: float) -> str:
        """Return the words that the model was sure enough of; all of them where it was sure of none."""
        sure = reasoning.strip_lead(" ".join(word.text for word in self.words if word.probability >= masked))
        return sure if re.search(r"\w", sure) else reasoning.strip_lead(self.text)


class _Controller:
    def __init__(self, method: Flare) -> None:
        self._method = method
        self._written: list[str] = []
        self._doubtful: _Draft | None = None
        self._end = ""

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        # The text only steers searches: with none made yet, or none left, there is nothing to steer.
        if not (view.queries and can_search(view)):
            return Measurement()
        searched_for, self._doubtful = self._doubtful is not None, None
        while not (self._end or calls.tokens_are_spent):
            draft = await self._draft(view, calls)
            if draft is None:
                break
            doubtful = draft.least < self._method.confident and not reasoning.repeats(draft.text, self._written)
            if doubtful and not searched_for:
                self._doubtful = draft
                break
            self._accept(draft.text)
            searched_for = False
        return Measurement()

    async def _draft(self, view: View, calls: ModelCalls) -> _Draft | None:
        fields = reasoning.fields(view, calls, self._written)
        try:
            return await calls.ask(
                "draft", "reasoner", fields, self._read, max_tokens=_LONGEST_SENTENCE, top_logprobs=1
            )
        except UnreadableReply:
            self._end = "text-incomplete"
            return None

    def _read(self, reply: ChatReply, repairs: Repairs) -> _Draft:
        said = words(reply, self._method.name)
        if not said:
            raise ReplyError("The reply holds no sentence.")
        sentence = reasoning.first_sentence(reply.text).split()
        # A label before the sentence, or a quote around it, is not part of it; where the two do not match, all counts.
        # Words hold no spaces, so the words of the sentence are one piece of the text between two spaces.
        text = " ".join(("", *(word.text for word in said), ""))
        at = text.find(" ".join(("", *sentence, "")))
        start = text.count(" ", 0, at) if at >= 0 else 0
        return _Draft(said if at < 0 else said[start : start + len(sentence)])

    def _accept(self, sentence: str) -> None:
        if reasoning.concludes(sentence):
            self._end = "text-concludes"
        elif reasoning.repeats(sentence, self._written):
            self._end = "text-repeats"
        elif len(self._written) + 1 >= self._method.sentences:
            self._end = "text-longest"
        self._written.append(sentence)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        if self._end:
            return answer(view, self._end)
        if not can_search(view):
            return stop(view)
        if self._doubtful is None:
            return search(view, "question")
        least = Comparison("least token probability", self._doubtful.least, "below", self._method.confident, True)
        return search(view, "unsure-sentence", least, query=self._doubtful.query(self._method.masked))
