"""Verifier forms that ask for an answer once and read the state of the evidence from it, for `lean`.

The draft is also the answer, so a look at the evidence costs no further call; `verifiers/reading.py` has what is read.
`draft` needs a model that reports token probabilities. `stated` is for all others: the same call asks for the answer,
for how sure the model is and for what is missing, as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from beliefrag.answering.packing import lower_words
from beliefrag.errors import ModelError, ReplyError
from beliefrag.models.protocol import ChatReply, TokenProbability
from beliefrag.prompts import Repairs, read_answer, read_json_object
from beliefrag.registry import TypicalCost
from beliefrag.types import Observation
from beliefrag.verifiers import ALTERNATIVES, VERIFIERS, Asker, Look, read_score
from beliefrag.verifiers.reading import measure_confidence, observe_draft

_HIGHEST_STATED = 10.0
_MISSING = 0.5
"""The least gap where the model names something that is missing."""


@VERIFIERS.register(
    "draft",
    title="Draft",
    summary="Reads all scores from one drafted answer, its token probabilities and where it occurs in the evidence.",
    cost=TypicalCost(1, 420, 6),
    needs_token_probabilities=True,
)
@dataclass(frozen=True, slots=True)
class Draft:
    """One call: the answer, with the probabilities of its tokens."""

    name: ClassVar[str] = "draft"
    prompts: ClassVar[tuple[str, ...]] = ("answer",)

    async def observe(self, asker: Asker, fields: Mapping[str, str], look: Look) -> Observation:
        """Ask for the answer, and read the evidence in view of it."""
        answer, tokens = await asker.ask("read", "answer", fields, read_with_tokens, top_logprobs=ALTERNATIVES)
        return observe_draft(fields["question"], answer, measure_confidence(answer, tokens), look)


@VERIFIERS.register(
    "stated",
    title="Stated",
    summary="Asks once for an answer, how sure it is and what is missing; for models without token probabilities.",
    cost=TypicalCost(1, 460, 30),
)
@dataclass(frozen=True, slots=True)
class Stated:
    """One call: the answer, how sure the model says it is, and what it says is missing, as JSON."""

    name: ClassVar[str] = "stated"
    prompts: ClassVar[tuple[str, ...]] = ("stated_answer",)

    async def observe(self, asker: Asker, fields: Mapping[str, str], look: Look) -> Observation:
        """Ask for the three, and read the evidence in view of the answer."""
        answer, sure, missing = await asker.ask("read", "stated_answer", fields, _read_stated, schema=_STATED_SCHEMA)
        found = observe_draft(fields["question"], answer, sure, look)
        return replace(found, gap=max(found.gap, _MISSING)) if missing else found


def require_tokens(reply: ChatReply, form: str = "probability") -> tuple[TokenProbability, ...]:
    """Return the tokens of a reply with their probabilities."""
    if not reply.tokens:
        raise ModelError(
            f"This model reports no token probabilities, which the verifier form {form!r} needs.",
            remedy="Use --set verifier=graded or --set verifier=structured.",
        )
    return reply.tokens


def read_with_tokens(
    reply: ChatReply, repairs: Repairs, *, form: str = Draft.name
) -> tuple[str, tuple[TokenProbability, ...]]:
    """Read a drafted answer and its tokens, which this form needs."""
    return read_answer(reply.text), require_tokens(reply, form)


def _read_stated(reply: ChatReply, repairs: Repairs) -> tuple[str, float, bool]:
    stated = read_json_object(reply.text, repairs)
    answer = stated.get("answer")
    if not isinstance(answer, str):
        raise ReplyError("answer is not a text.")
    sure = read_score(stated, "sure", repairs, out_of=_HIGHEST_STATED)
    missing = stated.get("missing")
    is_missing = isinstance(missing, str) and bool(lower_words(missing)) and missing.strip().lower() != "nothing"
    return read_answer(answer), sure, is_missing


_STATED_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "missing": {"type": "string"},
        "answer": {"type": "string"},
        "sure": {"type": "integer", "minimum": 0, "maximum": 10},
    },
    "required": ["missing", "answer", "sure"],
    "additionalProperties": False,
}
