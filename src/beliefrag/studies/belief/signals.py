"""How well each belief dimension tells right states from wrong ones, alone and jointly, and how they hang together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.stats import rankdata

from beliefrag.calibration.examples import Examples
from beliefrag.calibration.fitting import LEAST_SPREAD, fit_logistic
from beliefrag.calibration.quality import Floats, estimate_auc
from beliefrag.runs.states import State
from beliefrag.runs.statistics import Estimate, estimate_from_resamples

__all__ = [
    "DIMENSIONS",
    "Dimension",
    "columns",
    "correlation",
    "fitted_scores",
    "signal",
]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of the belief."""

    name: str
    better: int
    """1 where more of it speaks for a right answer, -1 where less does."""
    value: Callable[[State], float]


_IN_ORDER = (
    Dimension("sufficiency", 1, lambda s: s.belief.sufficiency),
    Dimension("reliability", 1, lambda s: s.belief.reliability),
    Dimension("conflict", -1, lambda s: s.belief.conflict),
    Dimension("uncertainty", -1, lambda s: s.belief.uncertainty),
    Dimension("gap", -1, lambda s: s.belief.gap),
    Dimension("cost", -1, lambda s: s.belief.cost),
)
DIMENSIONS: Mapping[str, Dimension] = {dimension.name: dimension for dimension in _IN_ORDER}


def columns(examples: Examples) -> Floats:
    """The belief of each example, a column for each dimension."""
    return np.array([[d.value(state) for d in DIMENSIONS.values()] for state in examples.states])


def signal(scores: Floats, examples: Examples) -> Estimate | None:
    """The AUC of a score for being right, with its interval over questions; None where all outcomes are alike."""
    found = estimate_auc(scores, examples)
    return None if found is None else replace(found, questions=examples.count.questions)


def fitted_scores(table: Floats, examples: Examples) -> Floats:
    """Scores of one fit that has seen all states: it flatters itself, and shows by how much."""
    fitted = fit_logistic(table, examples.outcomes, examples.weights)
    scores: Floats = fitted.intercept + table @ np.array(fitted.weights)
    return scores


def correlation(one: Floats, other: Floats, examples: Examples) -> Estimate | None:
    """Spearman's rank correlation over states, with its interval over questions; None where one does not vary."""
    if np.ptp(one) < LEAST_SPREAD or np.ptp(other) < LEAST_SPREAD:
        return None
    # Ranks of the whole, taken once: what resamples change is how much each state weighs.
    ranks = rankdata(one), rankdata(other)
    value = float(_pearson(*ranks, examples.weights))
    drawn = examples.resample(partial(_pearson, *ranks))
    return estimate_from_resamples(value, drawn, questions=examples.count.questions)


def _pearson(one: Floats, other: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=-1)
    first, second = weights @ one / total, weights @ other / total
    product = weights @ (one * other) / total - first * second
    spread = (weights @ one**2 / total - first**2) * (weights @ other**2 / total - second**2)
    shape = np.shape(spread)
    found: Floats = np.divide(product, np.sqrt(np.maximum(spread, 0)), out=np.full(shape, np.nan), where=spread > 1e-12)
    return found
