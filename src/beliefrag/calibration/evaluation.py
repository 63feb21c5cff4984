"""How good probabilities are on recorded examples, with intervals over questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import numpy as np

from beliefrag.calibration.examples import Examples
from beliefrag.calibration.quality import Floats, auc, brier, expected_calibration_error, reliability_curve
from beliefrag.calibration.report import CheckedQuality, Quality
from beliefrag.policy import Answerability, RetrievalValue
from beliefrag.runs.statistics import Estimate, estimate_from_resamples, mean_estimate

__all__ = ["answerabilities", "area", "by_question", "checked_quality", "quality", "retrieval_values"]


def answerabilities(examples: Examples, fit: Answerability) -> Floats:
    """What a fit says of each state."""
    return np.array([fit.probability(state.diagnostics, state.belief.sufficiency) for state in examples.states])


def retrieval_values(examples: Examples, fit: RetrievalValue) -> Floats:
    """What a fit says that searching from each state is worth."""
    return np.array(
        [
            fit.probability(
                rounds=state.rounds, novelty=state.diagnostics.novelty, sufficiency=state.belief.sufficiency
            )
            for state in examples.states
        ]
    )


def quality(p: Floats, examples: Examples, base_rate: float) -> Quality:
    """All that is reported of probabilities on held-out examples.

    Args:
        p: A probability for each example.
        examples: Those that nothing was fitted or chosen on.
        base_rate: The share of positive outcomes among the fitted ones, which no fit is needed to know.
    """
    y, weights = examples.outcomes, examples.weights
    errors = by_question(examples, (p - y) ** 2)
    count = examples.count
    return Quality(
        states=count.states,
        questions=count.questions,
        share=round(examples.rate, 6),
        brier=_rounded(mean_estimate(errors)),
        brier_base_rate=_constant_brier(base_rate, examples),
        brier_gain=_gain(p, base_rate, examples),
        auc=area(p, examples),
        ece=round(float(expected_calibration_error(p, y, weights)), 6),
        curve=reliability_curve(p, y, weights),
    )


def checked_quality(p: Floats, examples: Examples, base_rate: float) -> CheckedQuality:
    """The same, and the gain over the share of these very examples."""
    share = examples.rate
    return CheckedQuality(
        **dict(quality(p, examples, base_rate)),
        brier_share=_constant_brier(share, examples),
        brier_gain_over_share=_gain(p, share, examples),
    )


def area(p: Floats, examples: Examples) -> Estimate | None:
    """The AUC with its interval; None where all examples came out alike."""
    value = float(auc(p, examples.outcomes, examples.weights))
    if not np.isfinite(value):
        return None
    return estimate_from_resamples(value, examples.resample(partial(auc, p, examples.outcomes)))


def by_question(examples: Examples, values: Floats) -> dict[str, float]:
    """The mean of each question's examples."""
    grouped: dict[str, list[float]] = defaultdict(list)
    for question, value in zip(examples.questions, values, strict=True):
        grouped[question].append(float(value))
    return {question: _mean(found) for question, found in grouped.items()}


def _constant_brier(rate: float, examples: Examples) -> float:
    y = examples.outcomes
    return round(float(brier(np.full_like(y, rate), y, examples.weights)), 6)


def _gain(p: Floats, rate: float, examples: Examples) -> Estimate:
    """By how much the probabilities are nearer to what came true than always saying one rate."""
    y = examples.outcomes
    return _rounded(mean_estimate(by_question(examples, (rate - y) ** 2 - (p - y) ** 2)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _rounded(estimate: Estimate) -> Estimate:
    """The three numbers as they are written down; the file says elsewhere how many questions there are."""
    low, high = (None if bound is None else round(bound, 6) for bound in (estimate.low, estimate.high))
    return Estimate(round(estimate.value, 6), low, high)
