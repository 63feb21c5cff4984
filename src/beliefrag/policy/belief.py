"""What one step knows: the seven diagnostics of the evidence, the six beliefs that they move, and two probabilities.

Four of the diagnostics come from the verifier; three are computed here. A belief persists over an episode and moves
with each observation. The two probabilities are fitted for a model, and the policy decides with them.

Answerability p_ans is the calibrated chance that answering now gives a correct answer. It is distinct from the belief
in sufficiency: that one summarises the evidence, this one is fitted to the generator's own success and is what the
answer gate compares. The paper's form is a logistic over the seven diagnostics. The two others start from one raw
score, for which we take the belief in sufficiency; the paper does not say which score its Platt and isotonic
alternatives start from.

Retrieval value p_flip is the chance that one more retrieval makes a not-answerable state answerable.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

from beliefrag.types import Belief, Diagnostics, Observation, Passage

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


def calibrate_scores(scores: Sequence[float], scale: ScoreScale | None) -> list[float]:
    """z~ = sigmoid((z - mu_s) / tau_s) of each score; `NEUTRAL_RELEVANCE` where scores say nothing."""
    if scale is None:
        return [NEUTRAL_RELEVANCE] * len(scores)
    return [sigmoid((z - scale.location) / scale.scale) for z in scores]


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
    calibrated = calibrate_scores(sorted(scores, reverse=True)[:k], scale)
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


@dataclass(frozen=True, slots=True)
class DimensionParameters:
    """One row of the paper's table: how a belief starts, how fast it moves and what moves it."""

    prior: float
    intercept: float
    rate: float
    """lambda: the weight of the newest observation."""
    weights: Diagnostics


def _weights(**values: float) -> Diagnostics:
    zero = dict.fromkeys(("relevance", "support", "conflict", "uncertainty", "gap", "novelty", "cost"), 0.0)
    return Diagnostics(**(zero | values))


DIMENSIONS = {
    "sufficiency": DimensionParameters(
        0.35, -1.6, 0.6, _weights(support=2.6, relevance=1.2, gap=-2.2, uncertainty=-1.0, conflict=-0.6)
    ),
    "reliability": DimensionParameters(0.50, -1.4, 0.5, _weights(relevance=2.8, support=0.9, conflict=-2.4)),
    "conflict": DimensionParameters(0.05, -2.2, 0.6, _weights(conflict=4.4, support=-0.5)),
    "uncertainty": DimensionParameters(0.70, -1.2, 0.6, _weights(uncertainty=2.6, gap=1.3, support=-1.6, conflict=0.7)),
    "gap": DimensionParameters(0.90, -1.0, 0.7, _weights(gap=3.0, support=-1.4, novelty=0.4)),
}
"""The five inferred dimensions. Cost is observed, not inferred."""

PRIOR = Belief(**{name: row.prior for name, row in DIMENSIONS.items()}, cost=0.0)
"""What is believed before anything was seen."""


def update(belief: Belief, x: Diagnostics) -> Belief:
    """Blend what x says into what was believed, in logit space; cost becomes K itself."""
    moved = {
        name: sigmoid((1 - row.rate) * _logit(getattr(belief, name)) + row.rate * _score(row, x))
        for name, row in DIMENSIONS.items()
    }
    return Belief(**moved, cost=x.cost)


def _score(dimension: DimensionParameters, x: Diagnostics) -> float:
    """Return the logit of the belief that x alone would give: alpha + w . x."""
    return dimension.intercept + sum(w * v for w, v in zip(dimension.weights.vector(), x.vector(), strict=True))


def _logit(p: float) -> float:
    return math.log(p / (1.0 - p))


_CERTAIN = 1e-6
"""Nearer to 0 or 1 than this a raw score counts as this near: log-odds have no end."""


class Answerability(Protocol):
    """Anything that can say how likely an answer is to be right."""

    def probability(self, x: Diagnostics, sufficiency: float) -> float:
        """p_ans of a state with diagnostics x and that belief in sufficiency."""
        ...


@dataclass(frozen=True, slots=True)
class LogisticAnswerability:
    """A fitted logistic over the seven diagnostics; the belief plays no part."""

    kind: Literal["logistic"] = field(default="logistic", kw_only=True)
    intercept: float
    weights: Diagnostics

    def probability(self, x: Diagnostics, sufficiency: float) -> float:
        """p_ans = sigmoid(alpha + w . x)."""
        return sigmoid(
            self.intercept + sum(w * v for w, v in zip(self.weights.vector(), x.vector(), strict=True)),
        )


@dataclass(frozen=True, slots=True)
class PlattAnswerability:
    """A fitted logistic over the log-odds of the raw score: slope 1 and intercept 0 leave the score as it is."""

    kind: Literal["platt"] = field(default="platt", kw_only=True)
    intercept: float
    slope: float

    def probability(self, x: Diagnostics, sufficiency: float) -> float:
        """p_ans = sigmoid(a + b logit(b_suff))."""
        return sigmoid(self.intercept + self.slope * log_odds(sufficiency))


@dataclass(frozen=True, slots=True)
class IsotonicAnswerability:
    """A rising line through fitted points of the raw score, level beyond the first and the last."""

    kind: Literal["isotonic"] = field(default="isotonic", kw_only=True)
    scores: tuple[float, ...]
    """Strictly rising."""
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.scores or len(self.scores) != len(self.probabilities):
            raise ValueError("needs as many probabilities as scores, and at least one")
        if any(a >= b for a, b in pairwise(self.scores)) or any(a > b for a, b in pairwise(self.probabilities)):
            raise ValueError("scores and probabilities must rise")
        if self.probabilities[0] < 0 or self.probabilities[-1] > 1:
            raise ValueError("probabilities lie between 0 and 1")

    def probability(self, x: Diagnostics, sufficiency: float) -> float:
        """p_ans between the two points that the raw score lies between."""
        right = bisect_left(self.scores, sufficiency)
        if right == 0:
            return self.probabilities[0]
        if right == len(self.scores):
            return self.probabilities[-1]
        low, high = self.scores[right - 1], self.scores[right]
        below, above = self.probabilities[right - 1], self.probabilities[right]
        return below + (above - below) * (sufficiency - low) / (high - low)


def log_odds(sufficiency: float) -> float:
    """Return the logit of a raw score, which Platt's form is a line in."""
    p = min(max(sufficiency, _CERTAIN), 1 - _CERTAIN)
    return math.log(p / (1 - p))


FALLBACK_SCHEDULE: Mapping[int, float] = {0: 0.59, 1: 0.073, 2: 0.050, 3: 0.050}
"""The paper's values by rounds used, for when nothing was fitted."""


class RetrievalValue(Protocol):
    """Anything that can say what one more retrieval is worth."""

    def probability(self, *, rounds: int, novelty: float, sufficiency: float) -> float:
        """p_flip after `rounds` retrievals."""
        ...


@dataclass(frozen=True, slots=True)
class FittedValue:
    """A logistic over rounds used, novelty and the belief in sufficiency, fitted from pairs of states."""

    intercept: float
    rounds: float
    novelty: float
    sufficiency: float

    def probability(self, *, rounds: int, novelty: float, sufficiency: float) -> float:
        """p_flip = sigmoid(a + w_r r + w_N N + w_s b_suff)."""
        return sigmoid(self.intercept + self.rounds * rounds + self.novelty * novelty + self.sufficiency * sufficiency)


@dataclass(frozen=True, slots=True)
class ScheduledValue:
    """A fixed value per round; rounds beyond the schedule take its last value."""

    schedule: Mapping[int, float] = field(default_factory=lambda: dict(FALLBACK_SCHEDULE))

    def probability(self, *, rounds: int, novelty: float, sufficiency: float) -> float:
        """Return the scheduled value; novelty and sufficiency play no part."""
        return self.schedule[min(rounds, max(self.schedule))]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was fitted for a model and a corpus: an artifact gives it, and a method decides with it."""

    score_scale: ScoreScale | None
    """None where the retriever's scores say nothing about relevance."""
    answerability: Answerability
    retrieval_value: RetrievalValue
