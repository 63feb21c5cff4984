"""How good probabilities are: Brier score, AUC, expected calibration error and the reliability curve, with intervals.

The measures take the probabilities, the outcomes (1 or 0) and a weight for each, all along the last axis. Weights may
have several rows, one per resample: the result then has one number for each row. For the AUC outcomes may, too.

The calibration error is read in ten equal bins of probability, [0, 0.1) to [0.9, 1]: the sum over bins of their share
of the weight times the distance between mean probability and mean outcome. The binning is ours; the paper gives none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from beliefrag.calibration.artifact import Bin, Quality, QualityOnOtherStates
from beliefrag.calibration.examples import Examples
from beliefrag.policy import Answerability, RetrievalValue
from beliefrag.runs.statistics import Estimate, Floats, estimate_from_resamples, mean_estimate

__all__ = [
    "BINS",
    "Floats",
    "auc",
    "average_by_question",
    "brier",
    "estimate_auc",
    "expected_calibration_error",
    "measure_checked_quality",
    "measure_quality",
    "predict_answerability",
    "predict_retrieval_value",
    "reliability_curve",
]


BINS = 10


def brier(p: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the mean squared distance of the probabilities from what came true: lower is better."""
    mean: Floats = np.asarray(weights @ (p - y) ** 2 / weights.sum(axis=-1))
    return mean


def auc(p: Floats, y: Floats, weights: Floats) -> Floats:
    """Return the chance that a case that came true has a higher probability than one that did not; ties count half.

    It has no value where all cases of a row came out alike: that row is not a number, and the caller leaves it out.
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
    """Return how far probabilities lie from what came true, on average over the bins: 0 is perfect."""
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
            fit.probability(
                rounds=state.rounds, novelty=state.diagnostics.novelty, sufficiency=state.belief.sufficiency
            )
            for state in examples.states
        ]
    )


def measure_quality(p: Floats, examples: Examples, base_rate: float) -> Quality:
    """Measure everything that is reported of probabilities on held-out examples.

    Args:
        p: A probability for each example.
        examples: Examples that nothing was fitted or chosen on.
        base_rate: The share of positive outcomes among the fitted ones, which no fit is needed to know.
    """
    y, weights = examples.outcomes, examples.weights
    errors = average_by_question(examples, (p - y) ** 2)
    count = examples.count
    return Quality(
        states=count.states,
        questions=count.questions,
        share=round(examples.rate, 6),
        brier=_round_estimate(mean_estimate(errors)),
        brier_base_rate=_constant_brier(base_rate, examples),
        brier_gain=_brier_gain(p, base_rate, examples),
        auc=estimate_auc(p, examples),
        ece=round(float(expected_calibration_error(p, y, weights)), 6),
        curve=reliability_curve(p, y, weights),
    )


def measure_checked_quality(p: Floats, examples: Examples, base_rate: float) -> QualityOnOtherStates:
    """Measure the same, and the gain over always saying the share of positive outcomes of these examples."""
    share = examples.rate
    return QualityOnOtherStates(
        **dict(measure_quality(p, examples, base_rate)),
        brier_share=_constant_brier(share, examples),
        brier_gain_over_share=_brier_gain(p, share, examples),
    )


def estimate_auc(p: Floats, examples: Examples) -> Estimate | None:
    """Estimate the AUC with its interval; None where all examples came out alike."""
    value = float(auc(p, examples.outcomes, examples.weights))
    if not np.isfinite(value):
        return None
    return estimate_from_resamples(value, examples.resample(partial(auc, p, examples.outcomes)))


def average_by_question(examples: Examples, values: Floats) -> dict[str, float]:
    """Return the mean of each question's examples."""
    grouped: dict[str, list[float]] = defaultdict(list)
    for question, value in zip(examples.questions, values, strict=True):
        grouped[question].append(float(value))
    return {question: _mean(found) for question, found in grouped.items()}


def _constant_brier(rate: float, examples: Examples) -> float:
    y = examples.outcomes
    return round(float(brier(np.full_like(y, rate), y, examples.weights)), 6)


def _brier_gain(p: Floats, rate: float, examples: Examples) -> Estimate:
    """Return by how much the probabilities are nearer to what came true than always saying one rate."""
    y = examples.outcomes
    return _round_estimate(mean_estimate(average_by_question(examples, (rate - y) ** 2 - (p - y) ** 2)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _round_estimate(estimate: Estimate) -> Estimate:
    """Return the three numbers as they are written down; the file says elsewhere how many questions there are."""
    low, high = (None if bound is None else round(bound, 6) for bound in (estimate.low, estimate.high))
    return Estimate(round(estimate.value, 6), low, high)
