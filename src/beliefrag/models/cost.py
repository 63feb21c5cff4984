"""What model calls cost: tokens where the server counts none, and money where a price is known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from beliefrag.models.protocol import Message
from beliefrag.types import Usage

LOCAL_COUNT = "sevens-v1"
"""The name of our rule in `ChatReply.counted_by`. Another rule needs another name."""

_TOKENS_PER_MESSAGE = 4
"""A chat template adds the role and its marks to each message: about four tokens."""

_PIECE = re.compile(r"[\u2e80-\U0010ffff]|[^\W\d_\u2e80-\U0010ffff]{1,7}|[^\s\u2e80-\U0010ffff]")

_PRICED_TOKENS = 1_000
"""Tokens of the call whose price is looked up: far below any tier for long prompts, as our prompts are."""


def count_tokens(text: str) -> int:
    """Estimate how many tokens a text has: one for each started group of seven letters, and each other character.

    Per benchmark dataset, this is within 10 % of the Qwen2.5 and SmolLM2 vocabularies.
    """
    return len(_PIECE.findall(text))


def count_prompt(messages: Iterable[Message]) -> int:
    """Estimate how many tokens a conversation has, with what a chat template adds to each message."""
    return sum(count_tokens(message.content) + _TOKENS_PER_MESSAGE for message in messages)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens in and out, and for a call where each call has a price."""

    tokens_in: float
    tokens_out: float
    call: float = 0.0
    source: str = ""

    @property
    def is_free(self) -> bool:
        """Whether nothing has to be paid."""
        return not (self.tokens_in or self.tokens_out or self.call)

    def dollars_for(self, usage: Usage) -> float:
        """Return what this usage costs, in US dollars."""
        tokens = usage.tokens_in * self.tokens_in + usage.tokens_out * self.tokens_out
        return tokens / 1e6 + usage.calls * self.call


def price_of(identity: str) -> Price | None:
    """Return the price of a model on its server, from the table that `genai-prices` ships; None if it is unknown."""
    if identity.startswith(("local:", "scripted:")):
        return Price(0.0, 0.0, source="it runs on this machine")
    model, server = _split_identity(identity)
    if not server:
        return None
    # A table of a megabyte, which `beliefrag --help` does not need.
    import genai_prices  # noqa: PLC0415

    usage = genai_prices.Usage(input_tokens=_PRICED_TOKENS, output_tokens=_PRICED_TOKENS)
    try:
        found = genai_prices.calc_price(usage, model, provider_api_url=server)
    except LookupError:
        return None
    listed = vars(found.model_price)
    if listed.get("input_mtok") is None or listed.get("output_mtok") is None:
        return None  # Priced by pictures or hours.
    millions = 1_000_000 / _PRICED_TOKENS
    return Price(
        tokens_in=float(found.input_price) * millions,
        tokens_out=float(found.output_price) * millions,
        call=float(found.total_price - found.input_price - found.output_price),
        source=f"{found.provider.name} {found.model.id} in genai-prices {genai_prices.__version__}",
    )


def model_name(identity: str) -> str:
    """Return the model's name without its server, as a person typed it."""
    return _split_identity(identity)[0]


def _split_identity(identity: str) -> tuple[str, str]:
    kind, _, rest = identity.partition(":")
    name, _, server = rest.rpartition("@")
    return (name, server.partition("#")[0]) if kind == "openai" and name else (identity, "")
