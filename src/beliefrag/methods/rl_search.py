"""RL-Search: a dialogue in which the model itself searches and answers, in the format of Search-R1."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.errors import ReplyError, UnreadableReply
from beliefrag.methods import METHODS, TypicalCost
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.models.protocol import ChatReply, Message
from beliefrag.prompts import Repairs, escape, read_answer, read_line
from beliefrag.types import Decision

_THOUGHT_TAG = re.compile(r"<(/?)think>", re.IGNORECASE)
_STEP = re.compile(
    r"<(search|answer)>(.*?)(?:</\1>|(?=</?(?:search|answer|information|think)>)|\Z)", re.DOTALL | re.IGNORECASE
)
_STEP_ENDS = ("</search>", "</answer>")
"""Where a reply is stopped: what a model writes after its search it makes up, not having seen what was found."""
_LONGEST_THOUGHT = 1000


@METHODS.register(
    "rl_search",
    title="RL-Search",
    summary="Lets the model search and answer in a dialogue with tags.",
    cost=TypicalCost(3.8, 3_700, 130),
)
@dataclass(frozen=True, slots=True)
class RlSearch:
    """A prompted search dialogue with the tags of Search-R1 (Jin et al., 2025) and R3-RAG (Li et al., 2025).

    The originals train a model by reinforcement to use the tags; here an untrained model is shown how. The answer is
    the one given in the dialogue. A reply without a tag, twice, ends it, and the shared answer prompt answers.
    """

    name: ClassVar[str] = "rl_search"
    reader: Literal["dialogue", "shared"] = "dialogue"
    """Who gives the answer: the dialogue's last step, or the shared answer prompt where something was found."""

    def begin(self) -> Controller:
        """Return a controller that remembers the dialogue."""
        return _Controller(self)


@dataclass(frozen=True, slots=True)
class _Step:
    kind: Literal["search", "answer"]
    text: str
    thought: str

    def as_message(self) -> Message:
        """Return what the dialogue remembers of a reply: the model's step, and nothing that it made up after it."""
        thought = f"<think>{escape(self.thought)[:_LONGEST_THOUGHT]}</think> " if self.thought else ""
        return Message("assistant", f"{thought}<{self.kind}>{escape(self.text)}</{self.kind}>")


class _Controller:
    def __init__(self, options: RlSearch) -> None:
        self._options = options
        self._turns: list[Message] = []
        self._shown: set[str] = set()
        self._step: _Step | None = None

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        if view.queries:
            self._turns.append(self._information_message(view, calls))
        self._step = None
        # The last word may be said after the last search, but not once the tokens are spent.
        if view.spent.tokens < view.budget.tokens:
            fields = {"question": escape(view.question.text)}
            try:
                self._step = await calls.ask(
                    "dialogue", "search_dialogue", fields, _read_step, stop=_STEP_ENDS, turns=self._turns
                )
            except UnreadableReply:
                return Measurement()
            self._turns.append(self._step.as_message())
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        tokens_are_left = view.spent.tokens < view.budget.tokens
        if self._step is None:
            return answer(view, "dialogue-incomplete") if tokens_are_left else stop(view)
        if self._step.kind == "answer":
            if self._options.reader == "shared" and view.passages and tokens_are_left:
                return answer(view, "shared-reader")
            return answer(view, "model-answers", answer=self._step.text)
        if can_search(view):
            return search(view, "model-asks", query=self._step.text)
        return stop(view)

    def _information_message(self, view: View, calls: ModelCalls) -> Message:
        new = [passage for passage in view.passages if passage.id not in self._shown]
        self._shown.update(passage.id for passage in new)
        described = calls.show_evidence(view.question, new) if new else "(nothing new)"
        left = "" if can_search(view) else "\nNo search is left: give your best answer."
        return Message("user", f"<information>\n{described}\n</information>{left}")


def _read_step(reply: ChatReply, repairs: Repairs) -> _Step:
    """Return the first step of a reply. Its tag is open at the end, because that is where the reply was stopped."""
    said, thought = _split_thoughts(reply.text)
    found = _STEP.search(said)
    if found is None:
        raise ReplyError("The reply holds neither <search> nor <answer>.")
    if said[found.end() :].strip():
        repairs["repaired"] += 1
    if found.group(1).lower() == "search":
        return _Step("search", read_line(found.group(2)), thought)
    return _Step("answer", read_answer(found.group(2)), thought)


def _split_thoughts(text: str) -> tuple[str, str]:
    """Return what a reply says outside its closed thoughts, and the thoughts. A thought that is not closed stays."""
    pieces: list[str] = []
    found: list[str] = []
    opening: re.Match[str] | None = None
    last = 0
    for tag in _THOUGHT_TAG.finditer(text):
        if not tag[1]:
            opening = opening or tag
        elif opening:
            found.append(text[opening.end() : tag.start()])
            pieces.append(text[last : opening.start()])
            opening, last = None, tag.end()
    return "".join((*pieces, text[last:])), " ".join(found)
