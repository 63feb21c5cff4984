"""The quality of probabilities: Brier score, AUC, expected calibration error and the reliability curve, with intervals.

The measures take the probabilities, the outcomes (1 or 0) and a weight for each, all along the last axis. Weights may
have several rows, one per resample: the result then has one number for each row. For the AUC outcomes may, too.

The calibration error is read in ten equal bins of probability, [0, 0.1) to [0.9, 1]: the sum over bins of their share
of the weight times the distance between mean probability and mean outcome. The binning is ours; the paper gives none.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import numpy as np
from numpy.typing import NDArray

from beliefrag.calibration.artifact import Bin, Quality
from beliefrag.calibration.examples import DIAGNOSTICS, Examples
from beliefrag.policy import Answerability, RetrievalValue
from beliefrag.runs.statistics import Estimate, Floats, estimate_from_resamples, mean_estimate

BINS = 10


def brier(p: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the mean squared distance between probabilities and outcomes: lower is better."""
    mean: Floats = np.asarray(weights @ (p - y) ** 2 / weights.sum(axis=-1))
    return mean


def auc(p: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the chance that a positive case has a higher probability than a negative one; ties count half.

    A row whose cases all have the same outcome has the value NaN.
    """
    order = np.argsort(p, kind="stable")
    p, y, weights = p[order], y[..., order], weights[..., order]
    ties = np.flatnonzero(np.concatenate([[True], np.diff(p) > 0]))
    yes = np.add.reduceat(weights * y, ties, axis=-1)
    no = np.add.reduceat(weights * (1 - y), ties, axis=-1)
    won = (yes * (np.cumsum(no, axis=-1) - no / 2)).sum(axis=-1)
    pairs = yes.sum(axis=-1) * no.sum(axis=-1)
    share: Floats = np.divide(won, pairs, out=np.full_like(pairs, np.nan), where=pairs > 0)
    return share


def expected_calibration_error(p: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the mean distance between probabilities and outcomes over the bins: 0 is perfect."""
    members = _bin_places(p)[:, None] == np.arange(BINS)
    gaps: Floats = np.asarray(np.abs((weights * (p - y)) @ members).sum(axis=-1) / weights.sum(axis=-1))
    return gaps


def reliability_curve(p: Floats, y: Floats, weights: Floats) -> tuple[Bin, ...]:
    """Return the bins that have anything in them, lowest first."""
    places, total = _bin_places(p), float(weights.sum())
    curve = []
    for place in np.unique(places):
        inside = places == place
        share = float(weights[inside].sum())
        curve.append(
            Bin(
                low=place / BINS,
                high=(place + 1) / BINS,
                states=int(inside.sum()),
                share=round(share / total, 6),
                predicted=round(float(weights[inside] @ p[inside]) / share, 6),
                observed=round(float(weights[inside] @ y[inside]) / share, 6),
            )
        )
    return tuple(curve)


def _bin_places(p: Floats) -> NDArray[np.int64]:
    return np.minimum((p * BINS).astype(np.int64), BINS - 1)


def predict_answerability(examples: Examples, fit: Answerability) -> Floats:
    """Return the answerability that a fit predicts for each state."""
    return np.array([fit.probability(state.diagnostics, state.belief.sufficiency) for state in examples.states])


def predict_retrieval_value(examples: Examples, fit: RetrievalValue) -> Floats:
    """Return the value of searching from each state, as a fit predicts it."""
    return np.array(
        [
            fit.probability(rounds=each.rounds, novelty=each.diagnostics.novelty, sufficiency=each.belief.sufficiency)
            for each in examples.states
        ]
    )


def measure_quality(p: Floats, examples: Examples, base_rate: float) -> Quality:
    """Measure everything that is reported of probabilities on held-out examples.

    The `base_rate` is the share of positive outcomes among the fitted examples.
    """
    y, weights = examples.outcomes, examples.weights
    return Quality(
        states=len(examples),
        questions=len(set(examples.questions)),
        share=round(examples.rate, 6),
        brier=_mean_over_questions(examples, (p - y) ** 2),
        brier_base_rate=_constant_brier(base_rate, examples),
        brier_gain=_brier_gain(p, base_rate, examples),
        auc=estimate_auc(p, examples),
        ece=round(float(expected_calibration_error(p, y, weights)), 6),
        curve=reliability_curve(p, y, weights),
    )


def estimate_auc(p: Floats, examples: Examples) -> Estimate | None:
    """Estimate the AUC with its interval; None if all examples have the same outcome."""
    value = float(auc(p, examples.outcomes, examples.weights))
    if not np.isfinite(value):
        return None
    return estimate_from_resamples(value, examples.resample(partial(auc, p, examples.outcomes)))


def measure_each_diagnostic(examples: Examples) -> dict[str, float]:
    """Measure the AUC of each diagnostic by itself: far from 0.5, in either direction, it carries signal."""
    return {
        name: round(float(auc(column, examples.outcomes, examples.weights)), 4)
        for name, column in zip(DIAGNOSTICS, examples.diagnostics.T, strict=True)
    }


def _constant_brier(rate: float, examples: Examples) -> float:
    y = examples.outcomes
    return round(float(brier(np.full_like(y, rate), y, examples.weights)), 6)


def _brier_gain(p: Floats, rate: float, examples: Examples) -> Estimate:
    """Return by how much the Brier score is lower than that of always predicting one rate."""
    y = examples.outcomes
    return _mean_over_questions(examples, (rate - y) ** 2 - (p - y) ** 2)


def _mean_over_questions(examples: Examples, values: Floats) -> Estimate:
    grouped: dict[str, list[float]] = defaultdict(list)
    for question, value in zip(examples.questions, values.tolist(), strict=True):
        grouped[question].append(value)
    found = mean_estimate({question: sum(own) / len(own) for question, own in grouped.items()})
    low, high = (None if bound is None else round(bound, 6) for bound in (found.low, found.high))
    return Estimate(round(found.value, 6), low, high)
