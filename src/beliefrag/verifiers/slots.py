"""Scores read from a drafted answer and one form with two slots, each yes or no, in two calls.

What counts is not the word in a slot but the odds that the model gives to yes and no there. The form shows the few
sentences that speak of question and draft. Two things are not asked, because a small model cannot tell them in one form
(docs/prompts.md): which passages do not help is found by the processor, and conflict is not read.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar

from beliefrag.answering.packing import LEAST_WORDS, pack_passages
from beliefrag.errors import ReplyError
from beliefrag.models.protocol import ChatReply
from beliefrag.prompts import Repairs, escape, evidence_block
from beliefrag.registry import TypicalCost
from beliefrag.types import Observation, Passage
from beliefrag.verifiers import ALTERNATIVES, VERIFIERS, Asker, Look
from beliefrag.verifiers.draft import read_with_tokens, require_tokens
from beliefrag.verifiers.probability import read_probability_of_yes
from beliefrag.verifiers.reading import discount_doubt

_SLOTS = ("proved", "complete")
_FORM_WORDS = 100
"""Words of evidence that the form shows: the sentences nearest to question and draft (docs/prompts.md)."""
_WORDS = 20
"""Words for each passage, and at most half of all words: a passage does not help if none of the sentences that fit is
its own."""
_BEST = 2
"""The first passages, which the search liked best, are never found unhelpful: otherwise two to three times as many
supporting ones would be lost."""
_LIKELY, _PROVED = 0.7, 0.55
"""Where the confidence of the draft and *proved* both reach these, no passage is flagged, and no correction begins: it
would cost its tokens and change no F1 (docs/tried.md)."""
_YES_OR_NO = {"type": "string", "enum": ["yes", "no"]}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": dict.fromkeys(_SLOTS, _YES_OR_NO),
    "required": list(_SLOTS),
    "additionalProperties": False,
}
_FILLED = re.compile(r'"(\w+)"\s*:\s*(?:"\s*)?(yes|no)\b', re.IGNORECASE)


@VERIFIERS.register(
    "slots",
    title="Slots",
    summary="Drafts an answer and reads two probabilities from one form; the default for models on this machine.",
    cost=TypicalCost(2, 1_200, 20),
    needs_token_probabilities=True,
)
@dataclass(frozen=True, slots=True)
class Slots:
    """A drafted answer, and one form with a slot for support and one for completeness."""

    name: ClassVar[str] = "slots"
    prompts: ClassVar[tuple[str, ...]] = ("answer", "verifier_slots")

    async def observe(self, asker: Asker, fields: Mapping[str, str], look: Look) -> Observation:
        """Ask for an answer, which is the answer if it comes to that, and for the form over evidence and answer."""
        read = partial(read_with_tokens, form=self.name)
        draft, tokens = await asker.ask("verifier", "answer", fields, read, top_logprobs=ALTERNATIVES)
        confidence = min(math.exp(min(0.0, token.logprob)) for token in tokens) * discount_doubt(draft, tokens)
        nearest = [each.shown for each in pack_passages(f"{fields['question']} {draft}", look.passages, _FORM_WORDS)]
        odds = await asker.ask(
            "verifier",
            "verifier_slots",
            {**fields, "evidence": evidence_block(nearest or look.passages), "draft": escape(draft)},
            _read_slots,
            schema=_SCHEMA,
            top_logprobs=ALTERNATIVES,
        )
        is_settled = confidence >= _LIKELY and odds["proved"] >= _PROVED
        return Observation(
            support=odds["proved"],
            conflict=0.0,
            uncertainty=1.0 - confidence,
            gap=1.0 - odds["complete"],
            unhelpful=() if is_settled else find_unhelpful(fields["question"], look.passages),
            draft=draft,
        )


def find_unhelpful(question: str, passages: Sequence[Passage]) -> tuple[str, ...]:
    """Find the passages, beyond the best, that the packing of evidence shows nothing of with few words to fill."""
    words = sum(len(passage.text.split()) for passage in passages)
    limit = max(LEAST_WORDS, min(_WORDS * len(passages), words // 2))
    shown = {each.passage.id for each in pack_passages(question, passages, limit) if each.spans}
    return tuple(passage.id for passage in passages[_BEST:] if shown and passage.id not in shown)


def _read_slots(reply: ChatReply, repairs: Repairs) -> dict[str, float]:
    """Read the probability of yes in each slot: the odds of the token in which the word of the slot begins."""
    tokens = require_tokens(reply, Slots.name)
    starts = list(accumulate((len(token.token) for token in tokens), initial=0))[:-1]
    found: dict[str, float] = {}
    for slot in _FILLED.finditer("".join(token.token for token in tokens)):
        if slot.group(1) in _SLOTS and slot.group(1) not in found:
            place = bisect_right(starts, slot.start(2)) - 1
            found[slot.group(1)] = read_probability_of_yes(tokens[place : place + 1])
    if missing := [name for name in _SLOTS if name not in found]:
        raise ReplyError(f"The form has no yes or no for {missing[0]!r}.")
    return found
