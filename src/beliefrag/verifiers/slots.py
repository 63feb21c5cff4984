"""Scores read from one form: a slot with yes or no for each passage and each question about the whole evidence.

It asks what `probability` asks, in two calls instead of four and one for each passage: a drafted answer, then the form.
What counts is not the word in a slot but the odds that the model gives to yes and no there.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

from beliefrag.engine.replies import Repairs
from beliefrag.errors import ReplyError
from beliefrag.models.protocol import ChatReply
from beliefrag.prompts import escape
from beliefrag.registry import TypicalCost
from beliefrag.types import Observation, Passage
from beliefrag.verifiers import VERIFIERS, Asker
from beliefrag.verifiers.probability import (
    ALTERNATIVES,
    Probability,
    read_draft,
    read_probability_of_yes,
    require_tokens,
)

__all__ = ["Slots"]

_QUESTIONS = ("proved", "complete", "agree")
_SLOT = re.compile(r'"(\w+)"\s*:\s*(?:"\s*)?(yes|no)\b', re.IGNORECASE)


@VERIFIERS.register(
    "slots",
    title="Slots",
    summary="Drafts an answer and fills in one form of yes and no, read by their probabilities.",
    cost=TypicalCost(2, 2_000, 60),
    needs_token_probabilities=True,
)
@dataclass(frozen=True, slots=True)
class Slots:
    """A drafted answer, and one form with a slot for each passage, for support, completeness and agreement."""

    name: ClassVar[str] = "slots"
    prompts: ClassVar[tuple[str, ...]] = ("answer", "verifier_slots")

    async def observe(self, asker: Asker, fields: Mapping[str, str], passages: Sequence[Passage]) -> Observation:
        """Asks for an answer, which is the answer if it comes to that, and for the form over evidence and answer."""
        draft, confidence = await asker.ask("verifier", "answer", fields, read_draft, top_logprobs=1)
        numbers = [str(number) for number in range(1, len(passages) + 1)]
        names = [*numbers, *_QUESTIONS]
        odds = await asker.ask(
            "verifier",
            "verifier_slots",
            {**fields, "draft": escape(draft)},
            lambda reply, repairs: _read_slots(reply, names, repairs),
            schema=_form_schema(names),
            top_logprobs=ALTERNATIVES,
        )
        helps = [odds[number] for number in numbers]
        least = min(Probability.helps, max(helps) - Probability.margin)
        unhelpful = tuple(passage.id for passage, p in zip(passages, helps, strict=True) if p < least)
        # One voice cannot contradict itself.
        agree = odds["agree"] if len(passages) - len(unhelpful) > 1 else 1.0
        return Observation(
            support=odds["proved"],
            conflict=max(0.0, 1.0 - 2.0 * agree),
            uncertainty=1.0 - confidence,
            gap=1.0 - odds["complete"],
            unhelpful=unhelpful,
            draft=draft,
        )


def _form_schema(names: Sequence[str]) -> dict[str, Any]:
    slot = {"type": "string", "enum": ["yes", "no"]}
    return {
        "type": "object",
        "properties": dict.fromkeys(names, slot),
        "required": list(names),
        "additionalProperties": False,
    }


def _read_slots(reply: ChatReply, names: Sequence[str], repairs: Repairs) -> dict[str, float]:
    """Reads the probability of yes in each slot: the odds of the token in which the word of the slot begins."""
    tokens = require_tokens(reply, "slots")
    starts = list(accumulate((len(token.token) for token in tokens), initial=0))[:-1]
    found: dict[str, float] = {}
    for slot in _SLOT.finditer("".join(token.token for token in tokens)):
        if slot.group(1) in names and slot.group(1) not in found:
            place = bisect_right(starts, slot.start(2)) - 1
            found[slot.group(1)] = read_probability_of_yes(tokens[place : place + 1])
    if missing := [name for name in names if name not in found]:
        raise ReplyError(f"The form has no yes or no for {missing[0]!r}.")
    return found
