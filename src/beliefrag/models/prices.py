"""What a model's tokens cost in money, where that is known.

Prices come from the table that the package `genai-prices` ships with. It can also fetch newer ones, in the background,
for whoever starts its `UpdatePrices`; nobody does here, so nothing is ever fetched and the prices are those of the
installed version. A price is only taken for the server that asks it: the same model on another server costs something
else, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.types import Usage

__all__ = ["Price", "model_name", "price_of"]

_CALL = 1_000
"""Tokens of the call whose price is looked up: far below any tier for long prompts, as ours are."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens in and out, and for a call where calls have a price of their own."""

    tokens_in: float
    tokens_out: float
    call: float = 0.0
    source: str = ""
    """Who says so."""

    @property
    def is_free(self) -> bool:
        """Whether nothing is paid for."""
        return not (self.tokens_in or self.tokens_out or self.call)

    def of(self, usage: Usage) -> float:
        """What so much costs, in US dollars."""
        tokens = usage.tokens_in * self.tokens_in + usage.tokens_out * self.tokens_out
        return tokens / 1e6 + usage.calls * self.call


def price_of(identity: str) -> Price | None:
    """The price of a model by its identity; None where nobody knows it.

    A model that runs in this process, and one that plays a script, cost nothing. A server of one's own has no price
    that anybody could look up.
    """
    if identity.startswith(("local:", "scripted:")):
        return Price(0.0, 0.0, source="it runs on this machine")
    model, server = _endpoint(identity)
    return _listed(model, server) if server else None


def model_name(identity: str) -> str:
    """The model's name without its server, as a person typed it."""
    return _endpoint(identity)[0]


def _endpoint(identity: str) -> tuple[str, str]:
    """Name and address of an endpoint's model; no address for any other."""
    kind, _, rest = identity.partition(":")
    name, _, server = rest.rpartition("@")
    return (name, server.partition("#")[0]) if kind == "openai" and name else (identity, "")


def _listed(model: str, server: str) -> Price | None:
    # A table of a megabyte: imported by those who need it, and not by `beliefrag --help`.
    import genai_prices  # noqa: PLC0415

    usage = genai_prices.Usage(input_tokens=_CALL, output_tokens=_CALL)
    try:
        found = genai_prices.calc_price(usage, model, provider_api_url=server)
    except LookupError:
        return None
    listed = vars(found.model_price)
    if listed.get("input_mtok") is None or listed.get("output_mtok") is None:
        # Priced by something else than tokens, by pictures or hours for example.
        return None
    millions = 1_000_000 / _CALL
    return Price(
        tokens_in=float(found.input_price) * millions,
        tokens_out=float(found.output_price) * millions,
        call=float(found.total_price - found.input_price - found.output_price),
        source=f"{found.provider.name} {found.model.id} in genai-prices {genai_prices.__version__}",
    )
