"""Which answers may be given so that few of them are wrong, with a guarantee that holds for any sample size.

The threshold is chosen by Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei, 2021, arXiv:2110.01052) with
exact binomial tails, as selective classification does it (Geifman and El-Yaniv, NeurIPS 2017). Nothing here rests on
the probabilities being calibrated: where they are not, fewer questions are answered, but the guarantee stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beliefrag.errors import explain_missing_extra

__all__ = [
    "GRID",
    "METHOD",
    "STARTS",
    "RiskCoverageCurve",
    "RiskSample",
    "ThresholdChoice",
    "answers_needed",
    "choose_threshold",
    "risk_coverage",
]

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

GRID: tuple[float, ...] = tuple(step / 100 for step in range(99, -1, -1))
"""The thresholds that are tried, from strict to lenient. Fixed beforehand: they must not depend on the points."""
STARTS: tuple[float, ...] = (0.9, 0.75, 0.6, 0.45)
"""Where the tests begin. Several, because few answers may be as sure as the first of them; each costs some power."""
METHOD = "Learn then Test: exact binomial tails, fixed sequences from " + ", ".join(f"{start:g}" for start in STARTS)


@dataclass(frozen=True, eq=False)
class RiskSample:
    """How questions ended that took no part in the fit: one point for each question that the policy would answer.

    Raises:
        ValueError: The columns have different lengths, or a probability lies outside 0 to 1.
    """

    probability: Floats
    correct: npt.NDArray[np.bool_]
    declined: int = 0
    """Questions that the policy declines whatever the threshold: they count as not answered."""

    def __post_init__(self) -> None:
        if self.probability.shape != self.correct.shape or self.probability.ndim != 1:
            raise ValueError(f"{self.probability.shape} probabilities do not match {self.correct.shape} labels")
        # Written so that a NaN fails too.
        if not bool(np.all((self.probability >= 0) & (self.probability <= 1))):
            raise ValueError("a probability lies between 0 and 1")

    def __len__(self) -> int:
        return len(self.probability) + self.declined


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """What came of choosing a threshold."""

    threshold: float | None
    """Answer from this probability on; None: no threshold could be shown to meet the target."""
    answered: int = 0
    """Points at or above it."""
    wrong: int = 0
    """How many of those are wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverageCurve:
    """Error among answered questions at each share of questions answered, from the strictest threshold on."""

    threshold: Floats
    coverage: Floats
    risk: Floats
    low: Floats
    """The interval is exact (Clopper and Pearson, 1934) at each place by itself, not for the whole curve at once."""
    high: Floats
    level: float
    aurc: float
    """Area under the curve (Geifman, Uziel and El-Yaniv, 2019): the error at a point's own threshold, on average."""


def choose_threshold(points: RiskSample, *, max_error: float, confidence: float) -> ThresholdChoice:
    """Return the lowest threshold at which, with that confidence, at most that share of the answers is wrong.

    Why it is valid: of the n points at or above a fixed threshold, Binomial(n, its true error) are wrong, so the tail
    P(Bin(n, max_error) <= wrong) is a p-value for "its error exceeds max_error". Going down to the first failure, a
    sequence accepts a bad threshold only if it accepts the first bad one on its way: a chance of at most its level.
    The levels of the sequences sum to 1 - confidence, so any choice among what they accept, the lowest too, is good.

    Args:
        points: Independent draws from the source whose questions are to be answered, none of them used for the fit.
        max_error: The largest share of wrong answers among those given, between 0 and 1.
        confidence: The least chance, over the draw of the points, that the threshold keeps to it.

    Raises:
        ValueError: A share lies outside 0 to 1.
    """
    with explain_missing_extra("A threshold with a guarantee", "bench"):
        from scipy.special import bdtr  # noqa: PLC0415 (slow to load)

    level = _level_per_sequence(max_error, confidence)
    answered, wrong = _count_above(points)
    # With no point there is no evidence: bdtr(0, 0, .) is 1, and nothing is rejected.
    rejected = bdtr(wrong, answered, max_error) <= level
    lowest: int | None = None
    for start in STARTS:
        place = GRID.index(start)
        while place < len(GRID) and rejected[place]:
            lowest = place if lowest is None else max(lowest, place)
            place += 1
    if lowest is None:
        return ThresholdChoice(None)
    return ThresholdChoice(GRID[lowest], int(answered[lowest]), int(wrong[lowest]))


def answers_needed(max_error: float, confidence: float) -> int:
    """Return how many answers, all of them right, it takes at least to show that a target is met."""
    return math.ceil(math.log(_level_per_sequence(max_error, confidence)) / math.log1p(-max_error))


def risk_coverage(points: RiskSample, *, level: float = 0.95) -> RiskCoverageCurve:
    """Return the error among answers at each coverage: one place for each probability that occurs.

    Raises:
        ValueError: There is no point that could be answered, or the level lies outside 0 to 1.
    """
    if not len(points.probability):
        raise ValueError("no question is answered at any threshold, so there is no curve")
    _require_share("level", level)
    order = np.argsort(-points.probability, kind="stable")
    probability, wrongs = points.probability[order], np.cumsum(~points.correct[order])
    # Questions with the same probability are answered together or not at all.
    last = np.append(probability[1:] != probability[:-1], True)
    answered, wrong = np.flatnonzero(last) + 1, wrongs[last]
    risk = wrong / answered
    low, high = _clopper_pearson(wrong, answered, level)
    sizes = np.diff(answered, prepend=0)
    return RiskCoverageCurve(
        threshold=probability[last],
        coverage=answered / len(points),
        risk=risk,
        low=low,
        high=high,
        level=level,
        aurc=float(np.average(risk, weights=sizes)),
    )


def _count_above(points: RiskSample) -> tuple[Counts, Counts]:
    """Return how many points lie at or above each threshold of the grid, and how many of those are wrong."""
    grid = np.array(GRID)
    every, wrong = np.sort(points.probability), np.sort(points.probability[~points.correct])
    return len(every) - np.searchsorted(every, grid, "left"), len(wrong) - np.searchsorted(wrong, grid, "left")


def _clopper_pearson(wrong: Counts, answered: Counts, level: float) -> tuple[Floats, Floats]:
    with explain_missing_extra("A curve of risk against coverage", "bench"):
        from scipy.special import betaincinv  # noqa: PLC0415 (slow to load)

    outside = (1 - level) / 2
    # Where nothing, or everything, is wrong, the interval is closed by 0, or by 1.
    low = np.where(wrong > 0, betaincinv(np.maximum(wrong, 1), answered - wrong + 1, outside), 0.0)
    right = answered - wrong
    high = np.where(right > 0, betaincinv(wrong + 1, np.maximum(right, 1), 1 - outside), 1.0)
    return low, high


def _level_per_sequence(max_error: float, confidence: float) -> float:
    """Return the probability of error that each sequence may use up."""
    _require_share("max_error", max_error)
    _require_share("confidence", confidence)
    return (1 - confidence) / len(STARTS)


def _require_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} lies between 0 and 1, not at {value:g}")
