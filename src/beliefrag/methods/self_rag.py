"""Self-RAG*: asked before each round whether to retrieve at all."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.errors import ReplyError, UnreadableReply
from beliefrag.methods import METHODS, TypicalCost
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.models.protocol import ChatReply
from beliefrag.prompts import Repairs, escape, read_line
from beliefrag.types import Comparison, Decision
from beliefrag.verifiers import ALTERNATIVES
from beliefrag.verifiers.probability import read_probability_of_yes


@METHODS.register(
    "self_rag",
    title="Self-RAG*",
    summary="Asks the model before each round whether to search.",
    cost=TypicalCost(6, 6_030, 45),
    thresholds_from="the authors' value for short answers",
)
@dataclass(frozen=True, slots=True)
class SelfRag:
    """The retrieve/no-retrieve trigger of Self-RAG alone (Asai et al., 2024): hence the star in its title.

    The original is a model trained to emit reflection tokens. Here an untrained model is asked yes or no, and only
    whether to retrieve. A model that reports no token probabilities is taken at its word, and a reply that is neither
    yes nor no, twice, means yes.
    """

    name: ClassVar[str] = "self_rag"
    threshold: float = 0.2
    """The probability of yes above which it searches; the authors' own value for short answers."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold < 1.0:
            raise ValueError(f"threshold lies from 0 to below 1, not at {self.threshold}")

    def begin(self) -> Controller:
        """Return a controller that remembers the latest yes or no."""
        return _Controller(self.threshold)


class _Controller:
    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._wanted = True
        self._compared: tuple[Comparison, ...] = ()

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        if can_search(view):
            fields = {
                "question": escape(view.question.text),
                "evidence": calls.show_evidence(view.question, view.answer_window),
            }
            try:
                yes = await calls.ask("trigger", "trigger", fields, _read_yes, top_logprobs=ALTERNATIVES)
            except UnreadableReply:
                self._wanted, self._compared = True, ()
            else:
                self._wanted = yes > self._threshold
                compared = Comparison("probability of yes", yes, "above", self._threshold, self._wanted)
                self._compared = (compared,)
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        if not self._wanted:
            return answer(view, "trigger-no", *self._compared)
        if can_search(view):
            return search(view, "trigger-yes", *self._compared)
        if view.nothing_missing:
            return answer(view, "nothing-missing")
        return stop(view)


def _read_yes(reply: ChatReply, repairs: Repairs) -> float:
    """Return the probability of yes; 1 or 0 by the word itself where the model reports no probabilities."""
    if reply.tokens:
        # A sign or a label before the word hides its odds: then the word itself must do.
        with contextlib.suppress(ReplyError):
            return read_probability_of_yes(reply.tokens)
    found = re.match(r"\W*(yes|no)\b", read_line(reply.text), re.IGNORECASE)
    if found is None:
        raise ReplyError("The reply is neither yes nor no.")
    return float(found.group(1).lower() == "yes")
