"""From diagnostics to belief: six quantities that persist and move with each observation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from beliefrag.policy.diagnostics import sigmoid
from beliefrag.types import Belief, Diagnostics


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
