"""Reads the state of the evidence from one drafted answer: its tokens, their alternatives, and where it stands.

The draft is also the answer, so a look at the evidence costs no further call:

- uncertainty: how unlikely the least likely token was, and more where the model also thought of giving no answer;
- conflict: how close an alternative came that the evidence holds too;
- support: whether the draft stands in the evidence, and how much of the question stands around it;
- gap: how much of the question no sentence of the evidence covers.

`draft` needs a model that reports token probabilities. `stated` is for all others: the same call asks for the answer,
for how sure the model is and for what is missing, as JSON.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from beliefrag.answering.packing import find_sentences, lower_words, read_sentences
from beliefrag.errors import ModelError, ReplyError
from beliefrag.models.protocol import ChatReply, TokenProbability
from beliefrag.prompts import Repairs, read_answer, read_json_object
from beliefrag.registry import TypicalCost
from beliefrag.types import Observation, Passage
from beliefrag.verifiers import ALTERNATIVES, VERIFIERS, Asker, read_score

_FULL_MARKS = 10.0
_EITHER = frozenset(("yes", "no"))
_NO_WORD = frozenset(("a", "an", "the", "and", "or", "of", "in", "on", "at", "by", "to", "for", "from", "with"))
_NO_ANSWER = frozenset((
    "cannot", "insufficient", "no", "nobody", "none", "not", "nothing", "unavailable", "unclear", "undisclosed",
    "unknown", "unspecified",
))  # fmt: skip
"""Words that begin the reply of a model that finds no answer, in English."""
_NO_ANSWER_SCALE = 0.001
_NO_ANSWER_WEIGHT = 0.5
"""Where such words have more than that probability at the first token, the draft counts as about half as sure. The
numbers were chosen on train questions, each set with a fit to the others."""
_FOUND = 0.5
"""The support of a draft that occurs in the evidence with nothing of the question around it."""


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

    async def observe(self, asker: Asker, fields: Mapping[str, str], passages: Sequence[Passage]) -> Observation:
        """Ask for the answer, and read the evidence in view of it."""
        answer, tokens = await asker.ask("read", "answer", fields, read_with_tokens, top_logprobs=ALTERNATIVES)
        return observe_draft(fields["question"], passages, answer, tokens, measure_confidence(answer, tokens))


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

    async def observe(self, asker: Asker, fields: Mapping[str, str], passages: Sequence[Passage]) -> Observation:
        """Ask for the three, and read the evidence in view of the answer."""
        answer, sure, missing = await asker.ask("read", "stated_answer", fields, _read_stated, schema=_STATED_SCHEMA)
        found = observe_draft(fields["question"], passages, answer, (), sure)
        return replace(found, gap=max(found.gap, 0.5)) if missing else found


def observe_draft(
    question: str, passages: Sequence[Passage], answer: str, tokens: Sequence[TokenProbability], stated: float
) -> Observation:
    """Return the observation of these passages by an answer that was drafted from them.

    The tokens are empty where the model gives none; `stated` is how sure the draft is, from 0 to 1.
    """
    spans = [find_sentences(passage.text) for passage in passages]
    reading = read_sentences(question, passages, spans)
    best = [max(found, default=0.0) for found in zip(*(one.covers for one in reading.sentences), strict=True)]
    covered = sum(weight * cover for weight, cover in zip(reading.importance, best, strict=False))
    held = {word for passage in passages for word in lower_words(f"{passage.title} {passage.text}")}
    words, asked = lower_words(answer), lower_words(question)
    if _EITHER.intersection(words[:1]):
        support = covered
    elif words and "or" not in asked and set(words) <= set(asked):
        # It only repeats the question, which offers no choice.
        support = 0.0
    else:
        support = _FOUND * (sum(word in held for word in words) / len(words) if words else 0.0)
        phrase = f" {' '.join(words)} "
        for one in reading.sentences:
            passage = passages[one.passage]
            start, end = one.span
            if phrase in f" {' '.join(lower_words(f'{passage.title} {passage.text[start:end]}'))} ":
                around = sum(w * c for w, c in zip(reading.importance, one.covers, strict=True))
                support = max(support, _FOUND + (1.0 - _FOUND) * around)
    return Observation(
        support=min(1.0, support),
        conflict=_conflict(tokens, sorted(held)),
        uncertainty=1.0 - min(1.0, stated),
        gap=1.0 - min(1.0, covered),
        draft=answer,
    )


def measure_confidence(answer: str, tokens: Sequence[TokenProbability]) -> float:
    """Return how sure a draft is: the probability of its least likely token, and less where the model had doubts."""
    least = min(math.exp(min(0.0, token.logprob)) for token in tokens)
    return least * (1.0 - _NO_ANSWER_WEIGHT * _doubt(answer, tokens))


def _doubt(answer: str, tokens: Sequence[TokenProbability]) -> float:
    """Return how far the model thought of giving no answer, from 0 to 1: by the first words that it could have written.

    The answer prompt asks for a best guess in any case so that such words rarely come first, but often second.
    """
    # To a question of yes or no, "no" is an answer.
    words = _NO_ANSWER - _EITHER if _EITHER.intersection(lower_words(answer)[:1]) else _NO_ANSWER
    mass = sum(math.exp(min(0.0, logprob)) for text, logprob in tokens[0].top if text.strip().lower() in words)
    return mass / (mass + _NO_ANSWER_SCALE)


def _conflict(tokens: Sequence[TokenProbability], held: Sequence[str]) -> float:
    """Return how close an alternative came that begins another word of the evidence: 1 where it was as likely."""
    most = 0.0
    for place, token in enumerate(tokens):
        if place and not token.token[:1].isspace():
            # Inside a word an alternative is another spelling, not another answer.
            continue
        taken = token.token.strip().lower()
        for text, logprob in token.top:
            other = text.strip().lower()
            if not other or other in _NO_WORD or other.startswith(taken) or taken.startswith(other):
                continue
            if (other in _EITHER and taken in _EITHER) or _begins_word(other, held):
                rival, own = math.exp(min(0.0, logprob)), math.exp(min(0.0, token.logprob))
                most = max(most, 2.0 * rival / (rival + own) if rival + own > 0.0 else 0.0)
    return min(1.0, most)


def _begins_word(beginning: str, ordered: Sequence[str]) -> bool:
    if len(beginning) < 2 and not beginning.isdigit():
        return False
    place = bisect_left(ordered, beginning)
    return place < len(ordered) and ordered[place].startswith(beginning)


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
    sure = read_score(stated, "sure", repairs, out_of=_FULL_MARKS)
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
