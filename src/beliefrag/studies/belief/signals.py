"""How well each belief dimension tells right states from wrong ones, alone and jointly, and how they hang together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from beliefrag.calibration.quality import Floats, auc
from beliefrag.fitting.evaluation import area
from beliefrag.fitting.examples import Examples
from beliefrag.fitting.logistic import LEAST_SPREAD, fit_logistic
from beliefrag.fitting.resampling import interval, resampled
from beliefrag.fitting.states import State
from beliefrag.studies.result import Number

__all__ = ["DIMENSIONS", "Dimension", "columns", "correlation", "fitted_scores", "gain", "joint_scores", "signal"]

FOLDS = 5
DRAWS = 20
"""Of questions into parts: with one draw alone the joint AUC is a matter of luck."""
_SEED = 0


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


def signal(scores: Floats, examples: Examples) -> Number | None:
    """The AUC of a score for being right, with its interval over questions; None where all outcomes are alike."""
    found = area(scores, examples)
    return None if found is None else Number.of(found, questions=examples.count.questions)


def gain(scores: Floats, other: Floats, examples: Examples) -> Number:
    """By how much the AUC of a score lies above that of another one, on the same resamples."""

    def difference(weights: Floats) -> Floats:
        return auc(scores, examples.outcomes, weights) - auc(other, examples.outcomes, weights)

    value = float(difference(examples.weights))
    return Number.of(interval(value, resampled(examples, difference)), questions=examples.count.questions)


def joint_scores(table: Floats, examples: Examples, *, seed: int = _SEED) -> Floats | None:
    """For each state the score of logistic fits from all columns that have not seen the state's question.

    Args:
        table: A column for each dimension.
        examples: The states and outcomes.
        seed: Of the draws of questions into five parts.

    Returns:
        The mean scores over draws; None where some part cannot be fitted without it, since only one outcome is left.
    """
    questions, place = np.unique(np.array(examples.questions), return_inverse=True)
    generator = np.random.default_rng(seed)
    parts = [(generator.permutation(len(questions)) % FOLDS)[place] for _ in range(DRAWS)]
    drawn = [scores for part in parts if (scores := _unseen(table, examples, part)) is not None]
    mean: Floats | None = np.asarray(np.mean(drawn, axis=0)) if len(drawn) == DRAWS else None
    return mean


def _unseen(table: Floats, examples: Examples, part: NDArray[np.int64]) -> Floats | None:
    scores = np.zeros(len(examples))
    for each in np.unique(part):
        inside = part == each
        known = examples.outcomes[~inside]
        if not len(known) or known.min() == known.max():
            return None
        fitted = fit_logistic(table[~inside], known, examples.weights[~inside])
        scores[inside] = fitted.intercept + table[inside] @ np.array(fitted.weights)
    return scores


def fitted_scores(table: Floats, examples: Examples) -> Floats:
    """The same by one fit that has seen all states: it flatters itself, and shows by how much."""
    fitted = fit_logistic(table, examples.outcomes, examples.weights)
    scores: Floats = fitted.intercept + table @ np.array(fitted.weights)
    return scores


def correlation(one: Floats, other: Floats, examples: Examples) -> Number | None:
    """Spearman's rank correlation over states, with its interval over questions; None where one does not vary."""
    if np.ptp(one) < LEAST_SPREAD or np.ptp(other) < LEAST_SPREAD:
        return None
    # Ranks of the whole, taken once: what resamples change is how much each state weighs.
    ranks = rankdata(one), rankdata(other)
    value = float(_pearson(*ranks, examples.weights))
    drawn = resampled(examples, partial(_pearson, *ranks))
    return Number.of(interval(value, drawn), questions=examples.count.questions)


def _pearson(one: Floats, other: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=-1)
    first, second = weights @ one / total, weights @ other / total
    product = weights @ (one * other) / total - first * second
    spread = (weights @ one**2 / total - first**2) * (weights @ other**2 / total - second**2)
    shape = np.shape(spread)
    found: Floats = np.divide(product, np.sqrt(np.maximum(spread, 0)), out=np.full(shape, np.nan), where=spread > 1e-12)
    return found
