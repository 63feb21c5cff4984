"""Whether two replies to one request say the same, in words and in what the model thought of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from beliefrag.models.protocol import ChatReply, TokenProbability

__all__ = ["PROBABILITY_TOLERANCE", "same_probabilities"]

PROBABILITY_TOLERANCE = 0.001
"""How far a token's probability may move and still be the same.

It is a tenth of the last digit of the thresholds that probabilities are compared with (0.8, 0.5, 0.1). What a server
loses by printing four digits, and the last bits of its arithmetic, lie below it. Probabilities are compared rather than
their logarithms, because that is what is read: of a token at one in a million nobody reads the sixth digit.
"""


def same_probabilities(one: ChatReply, other: ChatReply) -> bool:
    """Whether all tokens, and the alternatives to each, have the same probabilities within the tolerance.

    Replies without any are the same; one with and one without are not.
    """
    if one.tokens is None or other.tokens is None:
        return one.tokens is other.tokens
    if [token.token for token in one.tokens] != [token.token for token in other.tokens]:
        return False
    return all(_alike(mine, theirs) for mine, theirs in zip(one.tokens, other.tokens, strict=True))


def _alike(one: TokenProbability, other: TokenProbability) -> bool:
    if not _near(one.logprob, other.logprob):
        return False
    return _holds(one.top, other.top) and _holds(other.top, one.top)


def _holds(listed: Sequence[tuple[str, float]], other: Sequence[tuple[str, float]]) -> bool:
    """Whether each alternative of a list is as likely in the other one, as far as that can be told."""
    known = dict(reversed(other))
    # The list ends at some rank. What is not in it is no likelier than its last entry, and may be just as likely.
    last = min(known.values(), default=-math.inf)
    return all(
        _near(logprob, known[token]) if token in known else logprob <= last or _near(logprob, last)
        for token, logprob in listed
    )


def _near(one: float, other: float) -> bool:
    return abs(math.exp(min(0.0, one)) - math.exp(min(0.0, other))) <= PROBABILITY_TOLERANCE
