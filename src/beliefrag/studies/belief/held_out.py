"""All dimensions jointly beside the strongest single one, on questions that neither was fitted or picked on.

AUCs are taken within parts. Scores of different fits cannot be put together in one AUC: a part with many right states
lies below the others, since its fit has seen few of them. And a single dimension that was picked on the very states
would flatter itself beside a fit that was not made on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beliefrag.calibration.examples import Examples
from beliefrag.calibration.fitting import fit_logistic
from beliefrag.calibration.quality import Floats, auc
from beliefrag.runs.statistics import Estimate, draw_counts, estimate_from_resamples, random_generator

__all__ = ["DRAWS", "RESAMPLES", "HeldOutAreas", "held_out_areas"]

FOLDS = 5
DRAWS = 20
"""Of questions into parts: with one draw alone the joint AUC would be a matter of luck."""
RESAMPLES = 200
_SEED = 0


@dataclass(frozen=True, slots=True)
class HeldOutAreas:
    """The chance that a right state has the better score than a wrong one of the same held-out part."""

    joint: Estimate
    """By a logistic fit of all dimensions on the other parts."""
    single: Estimate
    """By the dimension that is strongest on the other parts."""
    difference: Estimate
    """The first minus the second."""


@dataclass(frozen=True, slots=True)
class _Part:
    places: NDArray[np.int64]
    joint: Floats
    single: Floats


def held_out_areas(
    table: Floats, scores: Floats, examples: Examples, *, seed: int = _SEED, resamples: int = RESAMPLES
) -> HeldOutAreas | None:
    """Both AUCs and their difference.

    For the intervals questions are resampled, and fits and picks made anew on each resample: with those of the whole an
    interval would be too narrow. A resample has fewer different questions to fit on, so its AUCs lie lower; how far
    they lie apart is what the intervals are made of.

    Args:
        table: A column for each dimension.
        scores: The same columns, turned so that more speaks for a right answer.
        examples: The states and outcomes.
        seed: Of the draws of questions into parts and of the resamples.
        resamples: How many.

    Returns:
        None where some part leaves only one outcome to fit on.
    """
    generator = random_generator(seed)
    questions, place = np.unique(np.array(examples.questions), return_inverse=True)
    parts: list[_Part] = []
    for _ in range(DRAWS):
        drawn = _parted(table, scores, examples, examples.weights, generator)
        if drawn is None:
            return None
        parts += drawn
    value = _areas(parts, examples, examples.weights)
    found = []
    for _ in range(resamples):
        weights = draw_counts(generator, len(questions), 1)[0, place] * examples.weights
        again = _parted(table, scores, examples, weights, generator)
        found.append(np.full(3, np.nan) if again is None else _areas(again, examples, weights))
    spread = np.array(found)
    spread += value - np.nanmean(spread, axis=0)
    numbers = (
        estimate_from_resamples(float(own), np.clip(each, low, 1), questions=len(questions))
        for own, each, low in zip(value, spread.T, (0, 0, -1), strict=True)
    )
    return HeldOutAreas(*numbers)


def _parted(
    table: Floats, scores: Floats, examples: Examples, weights: Floats, generator: np.random.Generator
) -> list[_Part] | None:
    """The questions that weigh anything in five parts, each scored by what the others give."""
    there = np.flatnonzero(weights)
    present, own = np.unique(np.array(examples.questions)[there], return_inverse=True)
    part = (generator.permutation(len(present)) % FOLDS)[own]
    found = []
    for each in range(min(FOLDS, len(present))):
        inside, others = there[part == each], there[part != each]
        y, w = examples.outcomes[others], weights[others]
        if not len(y) or y.min() == y.max():
            return None
        fitted = fit_logistic(table[others], y, w)
        strongest = int(np.argmax([float(auc(column, y, w)) for column in scores[others].T]))
        joint = fitted.intercept + table[inside] @ np.array(fitted.weights)
        found.append(_Part(inside, joint, scores[inside, strongest]))
    return found


def _areas(parts: Sequence[_Part], examples: Examples, weights: Floats) -> Floats:
    """Joint, single and the difference; not a number where no part has both outcomes."""
    won, pairs = np.zeros(2), 0.0
    for part in parts:
        y, w = examples.outcomes[part.places], weights[part.places]
        own = float(w @ y * (w @ (1 - y)))
        if own > 0:
            won += own * np.array([auc(part.joint, y, w), auc(part.single, y, w)])
            pairs += own
    joint, single = won / pairs if pairs else (np.nan, np.nan)
    return np.array([joint, single, joint - single])
