"""Fits answerability in its four kinds, and chooses among them (SPEC 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from beliefrag.calibration.evaluation import answerabilities
from beliefrag.calibration.examples import Examples
from beliefrag.calibration.fits import AnswerabilityFit, IsotonicFit, Kind, LogisticFit, PlattFit, RawFit
from beliefrag.calibration.logistic import coefficients, fit_logistic
from beliefrag.calibration.quality import Floats, auc, brier
from beliefrag.policy.calibration import log_odds
from beliefrag.runs.statistics import Estimate
from beliefrag.types import Diagnostics

__all__ = ["DIAGNOSTICS", "Fits", "alone", "best", "fit_kinds", "fitted_coefficients"]

DIAGNOSTICS: tuple[str, ...] = tuple(field.name for field in fields(Diagnostics))


@dataclass(frozen=True, slots=True)
class Fits:
    """All kinds, fitted to the same states."""

    kinds: Mapping[Kind, AnswerabilityFit]
    """Simplest first: of kinds that are equally good the first is taken."""
    idle: tuple[str, ...]
    """Diagnostics that do not vary in these states, and have weight 0."""


def fit_kinds(examples: Examples) -> Fits:
    """Raw, Platt, logistic and isotonic on these states; answerable ones and others must both be there."""
    # Heavy, and needed by no command but a fit.
    from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415

    y, weights = examples.outcomes, examples.weights
    full = fit_logistic(_diagnostics(examples), y, weights)
    platt = fit_logistic(_log_odds(examples), y, weights)
    steps = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True, out_of_bounds="clip")
    steps.fit(_sufficiency(examples), y, sample_weight=weights)
    return Fits(
        {
            "raw": RawFit(),
            "platt": PlattFit(intercept=platt.intercept, slope=platt.weights[0]),
            "logistic": LogisticFit(intercept=full.intercept, weights=Diagnostics(*full.weights)),
            "isotonic": IsotonicFit(
                scores=tuple(steps.X_thresholds_.tolist()), probabilities=tuple(steps.y_thresholds_.tolist())
            ),
        },
        tuple(DIAGNOSTICS[place] for place in full.idle),
    )


def best(fits: Fits, examples: Examples) -> tuple[Kind, dict[str, float]]:
    """The kind with the lowest Brier score on these states, and the scores of all."""
    scores = {
        kind: float(brier(answerabilities(examples, fit.function()), examples.outcomes, examples.weights))
        for kind, fit in fits.kinds.items()
    }
    chosen = min(scores, key=lambda kind: scores[kind])
    return chosen, {kind: round(score, 6) for kind, score in scores.items()}


def fitted_coefficients(examples: Examples) -> dict[str, dict[str, Estimate]]:
    """The coefficients of the two kinds that have any, with their intervals."""
    return {
        "logistic": coefficients(_diagnostics(examples), examples, DIAGNOSTICS),
        "platt": coefficients(_log_odds(examples), examples, ("slope",)),
    }


def alone(examples: Examples) -> dict[str, float]:
    """The AUC of each diagnostic by itself: far from 0.5, in either direction, it carries signal."""
    columns = _diagnostics(examples)
    return {
        name: round(float(auc(columns[:, place], examples.outcomes, examples.weights)), 4)
        for place, name in enumerate(DIAGNOSTICS)
    }


def _diagnostics(examples: Examples) -> Floats:
    return np.array([state.diagnostics.vector() for state in examples.states])


def _sufficiency(examples: Examples) -> Floats:
    return np.array([state.belief.sufficiency for state in examples.states])


def _log_odds(examples: Examples) -> Floats:
    return np.array([[log_odds(state.belief.sufficiency)] for state in examples.states])
