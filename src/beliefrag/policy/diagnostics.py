"""The seven diagnostics of the current evidence. Four come from the verifier; three are computed here."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from beliefrag.types import Diagnostics, Observation, Passage

NOTHING_OBSERVED = Observation(support=0.0, conflict=0.0, uncertainty=1.0, gap=1.0)
"""What holds with no evidence, by structure; and the cautious reading of a verifier reply that cannot be used."""

SOFTMAX_TEMPERATURE = 0.2
"""tau_R: how strongly the best scores outweigh the others."""

NEUTRAL_RELEVANCE = 0.5
"""Relevance of passages whose scores say nothing: the middle of its range, where that of an ordinary search lies."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """Where a retriever's raw scores lie: location mu_s and scale tau_s, fitted per corpus and retriever."""

    location: float
    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.location) and math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"a score scale needs a finite location and a scale above 0, not {self}")


def sigmoid(value: float) -> float:
    """Return the logistic function, without overflow at either end."""
    if value >= 0:
        return 1.0 / (1.0 + math.exp(-value))
    power = math.exp(value)
    return power / (1.0 + power)


def relevance(scores: Sequence[float], scale: ScoreScale | None, k: int) -> float:
    """R: softmax-weighted mean of the k best calibrated scores among the retained passages; 0 with none.

    Args:
        scores: The retriever's raw score of each retained passage.
        scale: Where the retriever's scores lie. None where its scores say nothing about relevance: then R is
            `NEUTRAL_RELEVANCE` for any evidence, and only the verifier tells good passages from poor ones.
        k: How many of the best scores count.
    """
    if scale is None:
        return NEUTRAL_RELEVANCE if scores else 0.0
    calibrated = [sigmoid((z - scale.location) / scale.scale) for z in sorted(scores, reverse=True)[:k]]
    if not calibrated:
        return 0.0
    weights = [math.exp(z / SOFTMAX_TEMPERATURE) for z in calibrated]
    return sum(w * z for w, z in zip(weights, calibrated, strict=True)) / sum(weights)


def novelty(new: Sequence[Passage], before: Sequence[Passage], *, repeated: int = 0) -> float:
    """N: how little the passages that a search returned repeat of those retained before.

    1 with nothing retained before, 0 with nothing new; otherwise 1 minus the mean, over all passages returned, of the
    largest Jaccard similarity to an old one.

    Args:
        new: What the search returned for the first time.
        before: What was retained before it.
        repeated: How many passages it returned that were retained already, or dropped earlier: each repeats itself,
            with similarity 1.
    """
    if not new:
        return 0.0
    if not before:
        return 1.0
    old = [_tokens(passage) for passage in before]
    similar = sum(max(_jaccard(words, o) for o in old) for words in map(_tokens, new))
    return 1.0 - (similar + repeated) / (len(new) + repeated)


def cost(tokens_used: int, token_budget: int) -> float:
    """K: the share of the token budget that is spent, at most 1."""
    return min(1.0, tokens_used / token_budget)


def measure(observation: Observation, *, relevance: float, novelty: float, cost: float) -> Diagnostics:
    """Put the verifier's four scores and the three local ones together into x."""
    return Diagnostics(
        relevance=relevance,
        support=observation.support,
        conflict=observation.conflict,
        uncertainty=observation.uncertainty,
        gap=observation.gap,
        novelty=novelty,
        cost=cost,
    )


def _tokens(passage: Passage) -> frozenset[str]:
    return frozenset(_WORD.findall(f"{passage.title} {passage.text}".lower()))


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    shared = len(a & b)
    union = len(a) + len(b) - shared
    return shared / union if union else 1.0
