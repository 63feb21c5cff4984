"""Logistic regression with a weak ridge on standardised columns, and what its coefficients are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beliefrag.calibration.examples import Examples
from beliefrag.calibration.quality import Floats
from beliefrag.runs.statistics import Estimate, estimate_from_resamples

__all__ = ["LEAST_SPREAD", "RESAMPLES", "Logistic", "coefficients", "fit_logistic"]

LEAST_SPREAD = 0.01
"""A column that varies less than this tells nothing: its weight is 0, rather than a huge one on noise."""

_INVERSE_RIDGE = 1.0
"""C of scikit-learn, where a question weighs 1: hardly felt from some dozens of questions on."""
RESAMPLES = 500
"""Refits for the interval of a coefficient."""
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Logistic:
    """Intercept and weights on the columns' own scale, rounded as they are written down."""

    intercept: float
    weights: tuple[float, ...]
    idle: tuple[int, ...]
    """Columns that do not vary, and have weight 0."""


def fit_logistic(columns: Floats, outcomes: Floats, weights: Floats) -> Logistic:
    """The fit. Both outcomes must be there."""
    # Heavy, and needed by no command but a fit.
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    centre = np.average(columns, axis=0, weights=weights)
    spread = np.sqrt(np.average((columns - centre) ** 2, axis=0, weights=weights))
    used = spread >= LEAST_SPREAD
    scaled = np.zeros(columns.shape[1])
    if used.any():
        standard = (columns[:, used] - centre[used]) / spread[used]
        fitted = LogisticRegression(C=_INVERSE_RIDGE, solver="newton-cholesky", tol=1e-8, max_iter=200)
        fitted.fit(standard, outcomes, sample_weight=weights)
        scaled[used] = fitted.coef_[0] / spread[used]
        start = float(fitted.intercept_[0])
    else:
        rate = float(np.average(outcomes, weights=weights))
        start = float(np.log(rate / (1 - rate)))
    return Logistic(
        intercept=round(start - float(scaled @ centre), _DIGITS),
        weights=tuple(round(float(weight), _DIGITS) for weight in scaled),
        idle=tuple(int(place) for place in np.flatnonzero(~used)),
    )


def coefficients(columns: Floats, examples: Examples, names: Sequence[str]) -> dict[str, Estimate]:
    """Intercept and weights by name, each with the interval of refits on resampled questions."""
    fitted = fit_logistic(columns, examples.outcomes, examples.weights)
    drawn: list[list[float]] = []
    for block in examples.resampled_weights(RESAMPLES):
        for weights in block:
            kept = weights > 0
            outcomes = examples.outcomes[kept]
            if outcomes.min() == outcomes.max():
                drawn.append([np.nan] * (len(names) + 1))
                continue
            again = fit_logistic(columns[kept], outcomes, weights[kept])
            drawn.append([again.intercept, *again.weights])
    table = np.array(drawn)
    values = (fitted.intercept, *fitted.weights)
    return {
        name: estimate_from_resamples(value, table[:, place])
        for place, (name, value) in enumerate(zip(("intercept", *names), values, strict=True))
    }
