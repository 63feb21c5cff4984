"""What the judge costs and how fast a kind of model is, before a run has measured it."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.registry import TypicalCost

__all__ = ["JUDGE", "Pace", "pace_of"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a kind of model is."""

    seconds_per_call: float = 0.0
    seconds_per_token_in: float = 0.0
    seconds_per_token_out: float = 0.0

    def seconds(self, figure: TypicalCost) -> float:
        """How long so much takes, one call after another."""
        tokens = figure.tokens_in * self.seconds_per_token_in + figure.tokens_out * self.seconds_per_token_out
        return figure.calls * self.seconds_per_call + tokens


JUDGE = TypicalCost(1, 190, 2)

_EMBEDDED = Pace(seconds_per_token_in=1 / 150, seconds_per_token_out=1 / 8)
"""Over whole episodes on two busy cores; what prompts have in common with the one before is read only once."""
_ENDPOINT = Pace(seconds_per_call=1.0, seconds_per_token_out=1 / 60)
"""A guess: servers differ by a factor of ten."""
_SCRIPT = Pace()


def pace_of(identity: str) -> Pace:
    """How fast a model is, by what kind it is."""
    kind = identity.partition(":")[0]
    return {"local": _EMBEDDED, "scripted": _SCRIPT}.get(kind, _ENDPOINT)
