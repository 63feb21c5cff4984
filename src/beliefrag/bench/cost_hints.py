"""What an episode takes before a run has measured it: calls, tokens in and out, seconds.

The figures are for top-k 5 and passages of about a hundred words. Questions, corpora and models differ, so an estimate
from them can be off by a factor of two; a run's own episodes take their place as soon as there are some.
"""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.methods import STATE_COLLECTORS

__all__ = ["JUDGE", "Figure", "pace_of", "typical"]


@dataclass(frozen=True, slots=True)
class Figure:
    """Mean calls and tokens of an episode."""

    calls: float
    tokens_in: float
    tokens_out: float

    def __add__(self, other: Figure) -> Figure:
        return Figure(self.calls + other.calls, self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out)

    def times(self, n: float) -> Figure:
        """So many of them."""
        return Figure(self.calls * n, self.tokens_in * n, self.tokens_out * n)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a kind of model is."""

    seconds_per_call: float = 0.0
    seconds_per_token_in: float = 0.0
    seconds_per_token_out: float = 0.0

    def seconds(self, figure: Figure) -> float:
        """How long so much takes, one call after another."""
        tokens = figure.tokens_in * self.seconds_per_token_in + figure.tokens_out * self.seconds_per_token_out
        return figure.calls * self.seconds_per_call + tokens


_PLAIN = {
    "no_rag": Figure(1, 150, 8),
    "static": Figure(1, 800, 5),
    "iterative": Figure(3, 3_400, 40),
    "adaptive_k": Figure(1, 450, 6),
    "adaptive_rag": Figure(2.7, 1_700, 25),
    "self_rag": Figure(4, 3_000, 30),
    "rl_search": Figure(3, 2_700, 200),
    "ircot": Figure(3.5, 4_000, 80),
    "flare": Figure(3.5, 4_000, 80),
    "uncertainty_gate": Figure(1.8, 850, 14),
}
"""Methods that ask no verifier. The first three are means of 33 episodes with the embedded 1.5B model on HotpotQA,
2WikiMultiHopQA and MuSiQue; the others are reckoned from the size of their prompts."""

_BY_PROBABILITY = {"crag": Figure(11.5, 5_100, 53), "beliefrag": Figure(16, 8_050, 54)}
"""With the verifier that asks many small questions: means of 32 episodes each of the same run."""

_LOOKS = {"crag": 1.1, "beliefrag": 2.25}
"""How often the verifier looked at the evidence in an episode of that run."""
_LOOK = {"structured": Figure(1, 950, 50), "graded": Figure(1, 1_330, 50)}
"""One look at five passages with a verifier that is asked once: docs/results/verifier_states.jsonl."""
_QUERIES = {"crag": Figure(1.7, 360, 36), "beliefrag": Figure(1.5, 610, 31)}
"""Rewriter and query writer of an episode of that run."""
_ANSWER = Figure(1, 700, 5)
_SURVEYED = 1.5
"""A survey goes on where BeliefRAG ends, and tries an answer at each state: a guess."""

JUDGE = Figure(1, 190, 2)

_EMBEDDED = Pace(seconds_per_token_in=1 / 150, seconds_per_token_out=1 / 8)
"""Over whole episodes on two busy cores; what prompts have in common with the one before is read only once."""
_ENDPOINT = Pace(seconds_per_call=1.0, seconds_per_token_out=1 / 60)
"""A guess: servers differ by a factor of ten."""
_SCRIPT = Pace()


def typical(method: str, verifier: str) -> Figure:
    """The mean episode of a method, with the form in which its verifier is asked."""
    if method in _PLAIN:
        return _PLAIN[method]
    if method in STATE_COLLECTORS:
        return typical("beliefrag", verifier).times(_SURVEYED)
    if verifier == "probability":
        return _BY_PROBABILITY[method]
    return _LOOK[verifier].times(_LOOKS[method]) + _QUERIES[method] + _ANSWER


def pace_of(identity: str) -> Pace:
    """How fast a model is, by what kind it is."""
    kind = identity.partition(":")[0]
    return {"local": _EMBEDDED, "scripted": _SCRIPT}.get(kind, _ENDPOINT)
