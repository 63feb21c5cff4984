"""Reads what a model writes on the way to an answer: its sentences, and how sure it was of its words.

IRCoT and FLARE share the chain of reasoning, written one sentence at a time. FLARE and the uncertainty gate share the
probabilities of tokens.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import View
from beliefrag.errors import ModelError, ReplyError
from beliefrag.models.protocol import ChatReply, TokenProbability
from beliefrag.prompts import escape, read_line
from beliefrag.retrieval.documents import split_sentences

_LABEL = re.compile(r"\A(?:the\s+)?next\s+sentence\s*:\s*", re.IGNORECASE)
_CONCLUSION = re.compile(r"\banswer\s+is\b", re.IGNORECASE)
_LEAD = re.compile(r"\A(?:so|thus|therefore|hence)?,?\s*(?:the\s+)?(?:final\s+)?answer\s+is\b\s*:?\s*", re.IGNORECASE)


def fields(view: View, calls: ModelCalls, written: Sequence[str]) -> dict[str, str]:
    """Return what the prompt for the next sentence is filled with."""
    return {
        "question": escape(view.question.text),
        "evidence": calls.show_evidence(view.question, view.answer_window),
        "reasoning": escape(" ".join(written)) or "none",
    }


def first_sentence(text: str) -> str:
    """Return the first sentence of a reply; a model that is asked for one often goes on."""
    sentence = next(split_sentences(_LABEL.sub("", read_line(text))), "")
    if not re.search(r"\w", sentence):
        raise ReplyError("The reply holds no sentence.")
    return sentence


def concludes(sentence: str) -> bool:
    """Return whether the sentence gives the answer so that no other follows it.

    As in IRCoT's own exit, "answer is" may stand anywhere in it: models often add the answer to the last fact.
    """
    return _CONCLUSION.search(sentence) is not None


def strip_lead(sentence: str) -> str:
    """Return the sentence without the words that announce the answer: they do not help a search."""
    return _LEAD.sub("", sentence)


def repeats(sentence: str, written: Sequence[str]) -> bool:
    """Return whether the sentence says what an earlier one said: then the reasoning has ended."""
    return sentence.casefold().split() in [earlier.casefold().split() for earlier in written]


@dataclass(frozen=True, slots=True)
class Word:
    """A word with the probability of its least likely token."""

    text: str
    probability: float


def reply_probability(reply: ChatReply, method: str) -> float:
    """Return the probability of the whole reply: the product over its tokens."""
    return math.exp(sum(min(0.0, token.logprob) for token in _tokens(reply, method)))


def words(reply: ChatReply, method: str) -> tuple[Word, ...]:
    """Return the reply's words in their order."""
    tokens = _tokens(reply, method)
    ends = list(accumulate(len(token.token) for token in tokens))
    found = []
    for word in re.finditer(r"\S+", "".join(token.token for token in tokens)):
        own = tokens[bisect_right(ends, word.start()) : bisect_left(ends, word.end()) + 1]
        found.append(Word(word[0], min(math.exp(min(0.0, token.logprob)) for token in own if token.token)))
    return tuple(found)


def _tokens(reply: ChatReply, method: str) -> tuple[TokenProbability, ...]:
    if not reply.tokens:
        raise ModelError(
            f"This model reports no token probabilities, which the method {method!r} needs.",
            remedy="Use a model or server that gives logprobs, or leave this method out.",
        )
    return reply.tokens
