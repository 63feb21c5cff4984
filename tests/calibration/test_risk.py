"""The threshold that keeps the error among answered questions below a target."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from beliefrag.calibration.risk import STARTS, Floats, RiskSample, ThresholdChoice, answers_needed, choose_threshold
from beliefrag.errors import SettingsError

RIGHT, WRONG = True, False
DRAWS = 1_000


def points(*groups: tuple[int, float, bool], declined: int = 0) -> RiskSample:
    """So many points with that probability, right or wrong."""
    probability = [p for number, p, _ in groups for _ in range(number)]
    correct = [label for number, _, label in groups for _ in range(number)]
    return RiskSample(np.array(probability, dtype=np.float64), np.array(correct, dtype=np.bool_), declined)


# A fifth of risk in four sequences is a level of 1/20. With a target of one half, n right answers have the p-value
# 2^-n: four are too few (1/16), five are enough (1/32). Six with one wrong have (1 + 6)/64, nine with one wrong 10/512.
HALF = {"max_error": 0.5, "confidence": 0.8}


def test_enough_right_answers_are_accepted_and_one_fewer_are_not() -> None:
    assert choose_threshold(points((4, 0.95, RIGHT)), **HALF) == ThresholdChoice(None)
    assert choose_threshold(points((5, 0.95, RIGHT)), **HALF) == ThresholdChoice(0.0, answered=5, wrong=0)
    assert answers_needed(**HALF) == 5


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        # A sequence ends at its first failure.
        ([(5, 0.95, RIGHT), (1, 0.8, WRONG)], ThresholdChoice(0.81, answered=5, wrong=0)),
        # At 0.80 there are six with one wrong, at the start 0.75 nine with one wrong; below nothing changes any more.
        ([(5, 0.95, RIGHT), (1, 0.8, WRONG), (3, 0.76, RIGHT)], ThresholdChoice(0.0, answered=9, wrong=1)),
        # A probability at the threshold is answered, as in the policy.
        ([(5, 0.6, RIGHT), (9, 0.59, WRONG)], ThresholdChoice(0.6, answered=5, wrong=0)),
    ],
)
def test_the_threshold_worked_by_hand(groups: list[tuple[int, float, bool]], expected: ThresholdChoice) -> None:
    assert choose_threshold(points(*groups), **HALF) == expected


@pytest.mark.parametrize("nothing", [points(), points(declined=30), points((30, 0.9, WRONG)), points((30, 0.3, WRONG))])
def test_where_no_threshold_meets_the_target_there_is_none(nothing: RiskSample) -> None:
    assert choose_threshold(nothing, max_error=0.1, confidence=0.9).threshold is None


def test_p_values_are_binomial_tails() -> None:
    from scipy.stats import binom

    for n, k in ((60, 1), (60, 2), (200, 9), (200, 11)):
        found = choose_threshold(points((n - k, 0.95, RIGHT), (k, 0.95, WRONG)), max_error=0.1, confidence=0.9)
        assert (found.threshold is not None) == (binom.cdf(k, n, 0.1) <= 0.1 / len(STARTS)), (n, k)


@pytest.mark.parametrize("name", ["max_error", "confidence"])
@pytest.mark.parametrize("value", [0.0, 1.0, float("nan")])
def test_a_share_outside_0_to_1_is_refused(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=name):
        choose_threshold(points((5, 0.9, RIGHT)), **(HALF | {name: value}))


# In a simulated world a question has a place z in 0..1; its probability and its true chance to be right follow from z.
RiskCoverageCurve = Callable[[Floats], Floats]
WORLDS: dict[str, tuple[RiskCoverageCurve, RiskCoverageCurve]] = {
    "calibrated": (lambda z: z**0.5, lambda z: z**0.5),
    "overconfident": (lambda z: 0.5 + 0.5 * z, lambda z: 0.3 + 0.65 * z),
    "underconfident": (lambda z: 0.6 * z, lambda z: 0.5 + 0.5 * z),
    "backwards": (lambda z: 1 - z, lambda z: 0.6 + 0.39 * z),
    "without a clue": (lambda z: z, lambda z: np.full_like(z, 0.82)),
    # With a target of 0.19 every threshold is just bad: the hardest case.
    "at the border": (lambda z: z, lambda z: np.full_like(z, 0.80)),
}
_FINE = (np.arange(20_000) + 0.5) / 20_000


def true_errors(world: str, thresholds: Floats) -> Floats:
    """Return the error among answered questions in that world at these thresholds."""
    probability, right = (curve(_FINE) for curve in WORLDS[world])
    order = np.argsort(probability)
    below = np.searchsorted(probability[order], thresholds)
    wrong = np.append(np.cumsum((1 - right[order])[::-1])[::-1], 0.0)
    return wrong[below] / np.maximum(len(_FINE) - below, 1)


def simulated(world: str, size: int, choose: Callable[[RiskSample], float | None], seed: int) -> list[float | None]:
    """Return the threshold chosen in each of the draws."""
    draw = np.random.default_rng(seed)
    probability, right = WORLDS[world]
    chosen: list[float | None] = []
    for _ in range(DRAWS):
        z = draw.random(size)
        chosen.append(choose(RiskSample(probability(z), draw.random(size) < right(z))))
    return chosen


def violations(world: str, chosen: list[float | None], max_error: float) -> int:
    """Return how many thresholds let through more errors than the target. None answers and violates nothing."""
    thresholds = np.array([threshold for threshold in chosen if threshold is not None])
    # A true error that is the target itself differs from it by rounding alone.
    return int(np.sum(true_errors(world, thresholds) > max_error + 1e-6)) if len(thresholds) else 0


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("max_error", "confidence", "size"), [(0.1, 0.9, 150), (0.2, 0.9, 150), (0.19, 0.8, 300)])
def test_in_1000_calibrations_the_target_is_missed_no_more_often_than_agreed(
    world: str, max_error: float, confidence: float, size: int
) -> None:
    from scipy.stats import binom

    chosen = simulated(
        world, size, lambda p: choose_threshold(p, max_error=max_error, confidence=confidence).threshold, seed=7
    )
    # So many misses would come up once in a thousand tests, were each a miss with the chance that was agreed to.
    allowed = binom.ppf(0.999, DRAWS, 1 - confidence)
    assert violations(world, chosen, max_error) <= allowed
