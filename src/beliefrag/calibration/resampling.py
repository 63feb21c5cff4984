"""Intervals for numbers that several states of one question go into: the questions are resampled, never the states.

As in `bench.statistics`: percentile intervals of a seeded bootstrap, questions in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from beliefrag.calibration.examples import Examples
from beliefrag.calibration.quality import Floats
from beliefrag.calibration.report import Interval
from beliefrag.runs.statistics import MEAN_RESAMPLES

__all__ = ["interval", "resampled", "resampled_weights"]

SEED = 0
_BLOCK = 1_000_000
"""Weights made at a time, so that memory stays flat."""
_LEAST = 0.9
"""So many of the resamples must have a value: an interval of fewer would be of the lucky ones."""

_NO_SPREAD = 1e-9
"""What rounding makes of resamples that are all alike."""


def resampled_weights(examples: Examples, resamples: int = MEAN_RESAMPLES) -> Iterator[Floats]:
    """Blocks of rows of weights: a question that is drawn twice weighs twice, one that is not weighs nothing."""
    questions, place = np.unique(np.array(examples.questions), return_inverse=True)
    generator = np.random.default_rng(SEED)
    size = max(1, _BLOCK // len(examples))
    even = np.full(len(questions), 1 / len(questions))
    for start in range(0, resamples, size):
        drawn = generator.multinomial(len(questions), even, size=min(size, resamples - start))
        yield drawn[:, place] * examples.weights


def resampled(examples: Examples, number: Callable[[Floats], Floats]) -> Floats:
    """A number for each resample."""
    return np.concatenate([number(weights) for weights in resampled_weights(examples)])


def interval(value: float, drawn: Floats) -> Interval:
    """The middle 95 % of what resamples gave; without bounds where too many of them gave nothing."""
    known = drawn[np.isfinite(drawn)]
    if len(known) < _LEAST * len(drawn) or np.ptp(known) < _NO_SPREAD:
        return Interval(value=round(value, 6))
    low, high = np.quantile(known, [0.025, 0.975])
    return Interval(value=round(value, 6), low=round(float(low), 6), high=round(float(high), 6))
