"""What a run costs in money, as far as prices are known; the judge's apart from the methods'."""

from __future__ import annotations

from beliefrag.models.cost import Price, model_name, price_of
from beliefrag.settings import Prices
from beliefrag.types import Usage

__all__ = ["in_dollars", "judge_price", "model_price"]

_SETTINGS = "the settings"


def model_price(identity: str, given: Prices) -> Price | None:
    """The price of the model that the methods ask: what the settings say, else what the table says."""
    if given.tokens_in is not None and given.tokens_out is not None:
        return Price(given.tokens_in, given.tokens_out, source=_SETTINGS)
    return price_of(identity)


def judge_price(identity: str, model: str, given: Prices) -> Price | None:
    """The price of the judge. A judge that is the methods' own model costs what that costs."""
    if given.judge_tokens_in is not None and given.judge_tokens_out is not None:
        return Price(given.judge_tokens_in, given.judge_tokens_out, source=_SETTINGS)
    return model_price(identity, given) if identity == model else price_of(identity)


def in_dollars(identity: str, price: Price | None, usage: Usage) -> str:
    """What so much costs, in words that say on what price they rest, or that none is known."""
    if price is None:
        return f"no price known for {model_name(identity)}; the settings under prices can give one"
    if price.is_free:
        return f"nothing to pay ({price.source})"
    money = price.dollars_for(usage)
    rates = f"{_rate(price.tokens_in)} in and {_rate(price.tokens_out)} out for a million tokens"
    calls = f", {_rate(price.call)} for a call" if price.call else ""
    words = f"${money:,.2f}" if money >= 0.01 or not money else "less than $0.01"
    return f"{words} ({rates}{calls}: {price.source})"


def _rate(dollars: float) -> str:
    return f"${dollars:.2f}" if round(dollars, 2) == dollars else f"${dollars:g}"
