"""What is fitted for a model: two probabilities, which the policy decides with.

Answerability p_ans is the calibrated chance that answering now gives a correct answer. It is distinct from the belief
in sufficiency: that one summarises the evidence, this one is fitted to the generator's own success and is what the
answer gate compares. The paper's form is a logistic over the seven diagnostics. The two others start from one raw
score, for which we take the belief in sufficiency; the paper does not say which score its Platt and isotonic
alternatives start from.

Retrieval value p_flip is the chance that one more retrieval makes a not-answerable state answerable.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

from beliefrag.policy.diagnostics import ScoreScale, sigmoid
from beliefrag.types import Diagnostics

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
