"""What a model call is expected to cost, as far as that can be known before it is made."""

from __future__ import annotations

import math

from beliefrag.models.protocol import ChatReply, ChatRequest

_TOKENS_PER_CHARACTER = 1 / 3
"""What a prompt is taken to cost before the first reply tells. English has four characters or more to a token."""
_LEAST_REPLY = 64
"""The tokens that a reply is expected to have at least, where the request sets no limit to it."""


class ExpectedCost:
    """Learns from the replies of one episode what its next call will cost.

    Only the server knows how it counts, so the counts of its own replies are the measure: a prompt is expected to have
    as many tokens to a character as the densest prompt so far, and a reply to be as long as the longest so far.
    """

    def __init__(self) -> None:
        self._tokens_per_character: float | None = None
        self._longest_reply = _LEAST_REPLY

    def learn_from(self, request: ChatRequest, reply: ChatReply) -> None:
        """Take in what a call has cost."""
        shown = reply.tokens_in / max(1, _count_characters(request))
        self._tokens_per_character = max(shown, self._tokens_per_character or 0.0)
        self._longest_reply = max(self._longest_reply, reply.tokens_out)

    def estimate(self, request: ChatRequest) -> int:
        """Return the tokens of the prompt and of the reply: the longest that is allowed, where there is a limit."""
        rate = _TOKENS_PER_CHARACTER if self._tokens_per_character is None else self._tokens_per_character
        reply = self._longest_reply if request.max_tokens is None else request.max_tokens
        return math.ceil(_count_characters(request) * rate) + reply


def _count_characters(request: ChatRequest) -> int:
    return sum(len(message.content) for message in request.messages)
