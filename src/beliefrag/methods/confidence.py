"""How sure a model was of its words, read from the probabilities of the tokens."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from beliefrag.errors import ModelError
from beliefrag.models.protocol import ChatReply, TokenProbability

__all__ = ["Word", "reply_probability", "words"]


@dataclass(frozen=True, slots=True)
class Word:
    """A word with the probability of its least likely token."""

    text: str
    probability: float


def reply_probability(reply: ChatReply, method: str) -> float:
    """The probability of the whole reply: the product over its tokens.

    Raises:
        ModelError: The model reports no token probabilities.
    """
    return math.exp(sum(min(0.0, token.logprob) for token in _tokens(reply, method)))


def words(reply: ChatReply, method: str) -> tuple[Word, ...]:
    """The reply's words in their order.

    Raises:
        ModelError: The model reports no token probabilities.
    """
    found: list[Word] = []
    within = False
    for token in _tokens(reply, method):
        probability = math.exp(min(0.0, token.logprob))
        for piece in re.findall(r"\s+|\S+", token.token):
            if piece.isspace():
                within = False
            elif within:
                found[-1] = Word(found[-1].text + piece, min(found[-1].probability, probability))
            else:
                found.append(Word(piece, probability))
                within = True
    return tuple(found)


def _tokens(reply: ChatReply, method: str) -> tuple[TokenProbability, ...]:
    if not reply.tokens:
        raise ModelError(
            f"This model reports no token probabilities, which the method {method!r} needs.",
            remedy="Use a model or server that gives logprobs, or leave this method out.",
        )
    return reply.tokens
