"""How sure a number is: one interval type and one seeded bootstrap over questions.

The question is the unit. Several states of one question are drawn together, because they are not independent. Intervals
are percentile intervals of the bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13).
The comparison of two methods resamples questions with the values of both methods attached (the paired bootstrap of
Koehn, EMNLP 2004, and Berg-Kirkpatrick et al., EMNLP 2012) so that a hard question is hard for both. Questions are
sorted by their id before the first draw: the order of a file changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beliefrag.runs.estimate import MIN_QUESTIONS, Estimate
from beliefrag.runs.run_errors import UnequalQuestions

__all__ = ["MIN_QUESTIONS", "Estimate"]

MEAN_RESAMPLES = 2_000
PAIRED_RESAMPLES = 10_000

_BLOCK = 1_000_000
"""How many values are drawn at a time so that memory stays flat."""
_DIGITS = 6
_MIN_SHARE = 0.9
"""The share of resamples that must have a value. An interval of fewer would describe only the lucky ones."""
_OUTSIDE = (1 - 0.95) / 2
_BOUNDS = (_OUTSIDE, 1 - _OUTSIDE)
_NO_SPREAD = 1e-9
"""What rounding makes of resamples that are all alike."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """How far the first method's mean lies from the second's in one measure."""

    first: float
    second: float
    difference: Estimate

    @property
    def is_clear(self) -> bool:
        """Whether the interval lies on one side of zero, on enough questions to say so."""
        low, high = self.difference.low, self.difference.high
        return low is not None and high is not None and not self.difference.has_few_questions and (low > 0 or high < 0)


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two methods on the same questions, in several measures on the same resamples."""

    measures: Mapping[str, Difference]
    questions: int
    better_and_cheaper: float | None
    """The share of resamples in which the first method has more F1 with fewer tokens.

    None without these measures, and with one question, which says nothing about others.
    """
    left_out: tuple[str, ...] = ()
    """Questions that only one side has, where leaving them out was allowed."""


def mean_estimate(values: Mapping[str, float], *, seed: int = 0, resamples: int = MEAN_RESAMPLES) -> Estimate:
    """Return the mean over questions with its bootstrap interval, from one value per question."""
    column = _columns({"value": values})
    return _estimate(column[:, 0], resample_means(column, seed, resamples)[:, 0])


def mean_over_datasets(datasets: Mapping[str, Mapping[str, float]], *, resamples: int = MEAN_RESAMPLES) -> Estimate:
    """Return the simple mean of the datasets' means, as the last column of a table has it, with its interval.

    Questions are resampled within each dataset so that a large dataset weighs no more than a small one.
    """
    if not datasets:
        raise ValueError("a mean over datasets needs at least one dataset")
    columns = [_columns({"value": datasets[name]}) for name in sorted(datasets)]
    drawn = np.mean([resample_means(each, (0, k), resamples)[:, 0] for k, each in enumerate(columns)], axis=0)
    mean = math.fsum(float(each.mean()) for each in columns) / len(columns)
    return _estimate_over_datasets(mean, drawn, [len(each) for each in columns])


def compare(
    first: Mapping[str, Mapping[str, float]],
    second: Mapping[str, Mapping[str, float]],
    *,
    allow_unequal: bool = False,
) -> PairedComparison:
    """Return the paired difference of two methods within one dataset, first minus second.

    Both have one value per measure (`f1`, `tokens` ...) and question. With `allow_unequal` they are compared on the
    questions that both have, and the others are listed.
    """
    if set(first) != set(second) or not first:
        raise ValueError(f"both sides need the same measures, not {sorted(first)} and {sorted(second)}")
    everything = [values.keys() for side in (first, second) for values in side.values()]
    shared = set(everything[0]).intersection(*everything)
    left_out = tuple(sorted(set(everything[0]).union(*everything) - shared))
    if left_out and not allow_unequal:
        raise UnequalQuestions(
            f"{len(left_out)} of {len(left_out) + len(shared)} questions have a value on one side only, "
            f"such as {left_out[0]!r}.",
            remedy="Finish the run, or allow unequal question sets to compare on the shared ones.",
        )
    names = sorted(first)
    ours, theirs = (_columns({n: {key: side[n][key] for key in shared} for n in names}) for side in (first, second))
    gaps = ours - theirs
    drawn = resample_means(gaps, 0, PAIRED_RESAMPLES)
    measures = {
        name: Difference(float(ours[:, k].mean()), float(theirs[:, k].mean()), _estimate(gaps[:, k], drawn[:, k]))
        for k, name in enumerate(names)
    }
    both = _better_and_cheaper(names, drawn) if len(shared) > 1 else None
    return PairedComparison(measures, len(shared), both, left_out)


def compare_over_datasets(
    first: Mapping[str, Mapping[str, Mapping[str, float]]], second: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> PairedComparison:
    """Return the paired difference of two methods in the simple mean over datasets, first minus second.

    Both have one value per dataset, measure and question. Questions are resampled within each dataset, both methods
    and all measures on the same draws.
    """
    if not first or _shape(first) != _shape(second):
        raise ValueError("both sides need the same datasets, measures and questions")
    datasets = sorted(first)
    names = sorted(first[datasets[0]])
    sides = [[_columns({name: side[d][name] for name in names}) for d in datasets] for side in (first, second)]
    gaps = [ours - theirs for ours, theirs in zip(*sides, strict=True)]
    drawn = np.mean([resample_means(gap, (0, k), PAIRED_RESAMPLES) for k, gap in enumerate(gaps)], axis=0)
    sizes = [len(gap) for gap in gaps]
    measures = {}
    for k, name in enumerate(names):
        ours, theirs = (float(np.mean([column[:, k].mean() for column in side])) for side in sides)
        measures[name] = Difference(ours, theirs, _estimate_over_datasets(ours - theirs, drawn[:, k], sizes))
    both = _better_and_cheaper(names, drawn) if min(sizes) > 1 else None
    return PairedComparison(measures, sum(sizes), both)


def random_generator(seed: int | tuple[int, ...]) -> np.random.Generator:
    """Return the seeded generator of random numbers that every resampling and permutation in this package uses."""
    return np.random.default_rng(seed)


def resample_means(columns: Floats, seed: int | tuple[int, ...] = 0, resamples: int = MEAN_RESAMPLES) -> Floats:
    """Return the mean of each column over resampled questions: one row per question, in the order of their ids.

    All columns of one resample see the same questions. For one of several datasets, the seed includes its place.
    """
    generator, n = random_generator(seed), len(columns)
    size = max(1, _BLOCK // n)
    blocks = []
    for start in range(0, resamples, size):
        drawn = generator.integers(n, size=(min(size, resamples - start), n))
        blocks.append(columns[drawn].mean(axis=1))
    return np.concatenate(blocks)


def resample_weights(
    questions: Sequence[str] | NDArray[np.str_],
    datasets: Sequence[str] | NDArray[np.str_] | None = None,
    *,
    resamples: int = MEAN_RESAMPLES,
) -> Iterator[Floats]:
    """Draw questions that have several states each, and yield how often the question of each state was drawn.

    The blocks have one row per resample and one column per state. Questions are drawn within their dataset if the
    dataset of each state is given.
    """
    names, first, place = np.unique(np.asarray(questions), return_index=True, return_inverse=True)
    if datasets is None:
        strata = [(np.arange(len(names)), random_generator(0))]
    else:
        owner = np.asarray(datasets)[first]
        strata = [(np.flatnonzero(owner == name), random_generator((0, k))) for k, name in enumerate(np.unique(owner))]
    size = max(1, _BLOCK // len(place))
    for start in range(0, resamples, size):
        counts = np.zeros((min(size, resamples - start), len(names)))
        for members, generator in strata:
            counts[:, members] = draw_counts(generator, len(members), len(counts))
        yield counts[:, place]


def draw_counts(generator: np.random.Generator, n: int, rows: int) -> NDArray[np.int64]:
    """Draw n of n questions with replacement, in each row anew, and return how often each question was drawn."""
    return generator.multinomial(n, np.full(n, 1 / n), size=rows)


def estimate_from_resamples(value: float, drawn: Floats, *, questions: int | None = None) -> Estimate:
    """Return a value with the middle 95 % of what resamples gave, rounded as it is written down.

    Bounds are missing if more than a tenth of the resamples have no value (nan), or if all of them are alike.
    """
    known = drawn[np.isfinite(drawn)]
    low = high = None
    if len(known) >= _MIN_SHARE * len(drawn) and np.ptp(known) >= _NO_SPREAD:
        low, high = (round(bound, _DIGITS) for bound in _percentiles(known))
    return Estimate(round(value, _DIGITS), low, high, questions)


def pareto_front(cost: Floats, quality: Floats) -> NDArray[np.bool_]:
    """Return which points no other point beats: no other is as cheap and as good, and cheaper or better.

    The points lie along the last axis; further axes are resamples.
    """
    order = np.lexsort((-quality, cost), axis=-1)
    cost, ordered = np.take_along_axis(cost, order, -1), np.take_along_axis(quality, order, -1)
    # Points of equal cost form a group, with the best one first.
    starts = np.concatenate([np.ones_like(cost[..., :1], dtype=bool), np.diff(cost, axis=-1) > 0], axis=-1)
    group = np.maximum.accumulate(np.where(starts, np.arange(cost.shape[-1]), 0), axis=-1)
    best_so_far = np.maximum.accumulate(ordered, axis=-1)
    best_cheaper = np.where(group > 0, np.take_along_axis(best_so_far, np.maximum(group - 1, 0), -1), -np.inf)
    best_in_group = np.take_along_axis(ordered, group, -1)
    front: NDArray[np.bool_] = np.empty_like(starts)
    np.put_along_axis(front, order, (ordered == best_in_group) & (ordered > best_cheaper), -1)
    return front


def _shape(side: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[tuple[str, str], frozenset[str]]:
    return {(d, name): frozenset(values) for d, by_name in side.items() for name, values in by_name.items()}


def _better_and_cheaper(names: Sequence[str], drawn: Floats) -> float | None:
    if not {"f1", "tokens"} <= set(names):
        return None
    f1, tokens = drawn[:, names.index("f1")], drawn[:, names.index("tokens")]
    return float(np.mean((f1 > 0) & (tokens < 0)))


def _columns(measures: Mapping[str, Mapping[str, float]]) -> Floats:
    """Return questions in the order of their ids, one column per measure."""
    ids = sorted(next(iter(measures.values())))
    if not ids:
        raise ValueError("no question to take a mean of")
    rows = [[_finite(values[question_id], question_id) for values in measures.values()] for question_id in ids]
    return np.array(rows, dtype=np.float64)


def _estimate(values: Floats, drawn: Floats) -> Estimate:
    low, high = _percentiles(drawn) if len(values) > 1 else (None, None)
    return Estimate(float(values.mean()), low, high, len(values))


def _estimate_over_datasets(value: float, drawn: Floats, sizes: Sequence[int]) -> Estimate:
    low, high = _percentiles(drawn) if min(sizes) > 1 else (None, None)
    return Estimate(value, low, high, sum(sizes), smallest=min(sizes))


def _percentiles(drawn: Floats) -> tuple[float, float]:
    """Return the bounds of the middle 95 %."""
    low, high = np.quantile(drawn, _BOUNDS)
    return float(low), float(high)


def _finite(value: float, question_id: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"question {question_id!r} has the value {value}, which cannot be averaged")
    return float(value)
