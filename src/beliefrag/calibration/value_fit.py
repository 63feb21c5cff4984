"""Fits the retrieval value from pairs of states around a search (SPEC 4)."""

from __future__ import annotations

import numpy as np

from beliefrag.calibration.evaluation import quality, retrieval_values
from beliefrag.calibration.examples import Examples
from beliefrag.calibration.fits import ValueFit
from beliefrag.calibration.logistic import coefficients, fit_logistic
from beliefrag.calibration.quality import Floats
from beliefrag.calibration.report import ValueReport
from beliefrag.runs.samples import Partition

__all__ = ["LEAST_QUESTIONS", "enough", "fit_value", "value_report"]

LEAST_QUESTIONS = 10
"""With fewer questions of either outcome three weights would be guesses, and the paper's schedule is the better one."""

_NAMES = ("rounds", "novelty", "sufficiency")


def enough(pairs: Examples) -> bool:
    """Whether there are searches enough, of both outcomes, to fit on."""
    count = pairs.count
    return min(count.questions_positive, count.questions_negative) >= LEAST_QUESTIONS


def fit_value(pairs: Examples) -> tuple[ValueFit, tuple[str, ...]]:
    """The fit, and the names of what does not vary in these searches."""
    fitted = fit_logistic(_columns(pairs), pairs.outcomes, pairs.weights)
    rounds, novelty, sufficiency = fitted.weights
    found = ValueFit(intercept=fitted.intercept, rounds=rounds, novelty=novelty, sufficiency=sufficiency)
    return found, tuple(_NAMES[place] for place in fitted.idle)


def value_report(fit: ValueFit, pairs: Examples) -> ValueReport:
    """How the fit to the first part came about, and how good it is on the held-out one."""
    own, held_out = pairs.of(Partition.XFIT), pairs.of(Partition.XHOLD)
    return ValueReport(
        counts={part.value: pairs.of(part).count for part in Partition},
        base_rate=round(own.rate, 6),
        coefficients=coefficients(_columns(own), own, _NAMES),
        held_out=quality(retrieval_values(held_out, fit.function()), held_out, own.rate) if len(held_out) else None,
    )


def _columns(pairs: Examples) -> Floats:
    return np.array(
        [(state.rounds, state.diagnostics.novelty, state.belief.sufficiency) for state in pairs.states], dtype=float
    )
