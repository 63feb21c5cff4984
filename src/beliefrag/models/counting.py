"""Counts tokens where a server does not, so that every call has a cost.

A stand-in, not a tokenizer: the real vocabulary is the server's, and the usual libraries download theirs at run time.
Letters count one token for each started seven, every digit, sign and East Asian character one. On 750 passages of the
benchmarks that is within 10 % of the Qwen2.5 and SmolLM2 vocabularies per data set, and 7 % off per passage on average.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from beliefrag.models.protocol import Message

__all__ = ["STAND_IN", "count_prompt", "count_tokens"]

STAND_IN = "sevens-v1"
"""The name that goes into `ChatReply.counted_by`. Another rule needs another name."""

_AROUND_A_MESSAGE = 4
"""Chat templates wrap each message in its role and markers: about four tokens."""

_PIECE = re.compile(r"[\u2e80-\U0010ffff]|[^\W\d_\u2e80-\U0010ffff]{1,7}|[^\s\u2e80-\U0010ffff]")


def count_tokens(text: str) -> int:
    """About how many tokens a text is."""
    return sum(1 for _ in _PIECE.finditer(text))


def count_prompt(messages: Iterable[Message]) -> int:
    """About how many tokens a conversation is, with what a chat template adds around each message."""
    return sum(count_tokens(message.content) + _AROUND_A_MESSAGE for message in messages)
