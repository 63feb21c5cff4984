"""How sure a number is: seeded bootstrap over questions (SPEC 9).

The question is the unit. Seeds of one question are averaged first, because repeating a question tells nothing new
about other questions. Intervals are percentile intervals of the bootstrap (Efron and Tibshirani, An Introduction to
the Bootstrap, 1993, chapter 13); the comparison of two methods resamples questions with both methods' values attached
(the paired bootstrap of Koehn, EMNLP 2004, and Berg-Kirkpatrick et al., EMNLP 2012), so that a hard question is hard
for both. Everything is sorted by question id before the first draw: the order of a file changes nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beliefrag.runs.errors import UnequalQuestions

__all__ = [
    "FEW",
    "Difference",
    "Estimate",
    "PairedComparison",
    "average_seeds",
    "compare",
    "compare_over_datasets",
    "mean_estimate",
    "mean_over_datasets",
]

MEAN_RESAMPLES = 2_000
PAIRED_RESAMPLES = 10_000
FEW = 20
"""Below so many questions a percentile interval is too narrow to be trusted, and says so."""

_BLOCK = 1_000_000
"""Draws made at a time, so that memory stays flat."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and the interval that it can be trusted within."""

    mean: float
    low: float | None
    """None with fewer than two questions: one question says nothing about others."""
    high: float | None
    n: int
    """Questions, never episodes."""
    level: float = 0.95
    smallest: int | None = None
    """Of a mean over datasets: the questions of the smallest one."""

    @property
    def few(self) -> bool:
        """Whether there are too few questions, in any dataset, for the interval to be trusted."""
        return (self.n if self.smallest is None else self.smallest) < FEW


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
        return low is not None and high is not None and not self.difference.few and (low > 0 or high < 0)


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two methods on the same questions of one dataset, in several measures on the same resamples."""

    measures: Mapping[str, Difference]
    n: int
    better_and_cheaper: float | None
    """The share of resamples in which the first method has more F1 with fewer tokens.

    None without these measures, and with one question, which says nothing about others.
    """
    left_out: tuple[str, ...] = ()
    """Questions that only one side has, where leaving them out was allowed."""


def average_seeds(episodes: Iterable[tuple[str, int, float]]) -> dict[str, float]:
    """One value per question: the mean over its seeds.

    Args:
        episodes: Question id, seed and value of each.

    Raises:
        ValueError: A question has two values for one seed, or a value is not a finite number.
    """
    by_question: dict[str, dict[int, float]] = defaultdict(dict)
    for question_id, seed, value in episodes:
        if seed in by_question[question_id]:
            raise ValueError(f"question {question_id!r} has two values for seed {seed}")
        by_question[question_id][seed] = _finite(value, question_id)
    return {question_id: math.fsum(seeds.values()) / len(seeds) for question_id, seeds in by_question.items()}


def mean_estimate(
    values: Mapping[str, float], *, seed: int = 0, resamples: int = MEAN_RESAMPLES, level: float = 0.95
) -> Estimate:
    """The mean over questions with its bootstrap interval.

    Args:
        values: One value per question, seeds already averaged.
        seed: Of the resampling.
        resamples: How many.
        level: Of the interval.

    Raises:
        ValueError: There is no value, or one that is not a finite number.
    """
    column = _columns({"value": values})
    return _estimate(column[:, 0], _resampled_means(column, seed, resamples)[:, 0], level)


def mean_over_datasets(
    datasets: Mapping[str, Mapping[str, float]],
    *,
    seed: int = 0,
    resamples: int = MEAN_RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """The simple mean of the datasets' means, as the last column of a table has it, with its interval.

    Questions are resampled within each dataset, so that a large dataset weighs no more than a small one.
    """
    if not datasets:
        raise ValueError("a mean over datasets needs at least one dataset")
    means, drawn = [], []
    for place, name in enumerate(sorted(datasets)):
        column = _columns({"value": datasets[name]})
        means.append(float(column.mean()))
        drawn.append(_resampled_means(column, (seed, place), resamples)[:, 0])
    sizes = [len(values) for values in datasets.values()]
    low, high = _percentiles(np.mean(drawn, axis=0), level) if min(sizes) > 1 else (None, None)
    return Estimate(math.fsum(means) / len(means), low, high, sum(sizes), level, min(sizes))


def compare(
    first: Mapping[str, Mapping[str, float]],
    second: Mapping[str, Mapping[str, float]],
    *,
    allow_unequal: bool = False,
    seed: int = 0,
    resamples: int = PAIRED_RESAMPLES,
    level: float = 0.95,
) -> PairedComparison:
    """The paired difference of two methods within one dataset, first minus second.

    Args:
        first: Per measure (`f1`, `tokens` ...) one value per question, seeds already averaged.
        second: The same measures of the other method.
        allow_unequal: Compare on the questions that both have, and list the others.
        seed: Of the resampling.
        resamples: How many.
        level: Of the intervals.

    Raises:
        UnequalQuestions: The two did not see the same questions, and that was not allowed.
        ValueError: The measures differ, or no question is left.
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
    ours = _columns({name: {key: first[name][key] for key in shared} for name in names})
    theirs = _columns({name: {key: second[name][key] for key in shared} for name in names})
    gaps = ours - theirs
    drawn = _resampled_means(gaps, seed, resamples)
    measures = {
        name: Difference(
            float(ours[:, place].mean()),
            float(theirs[:, place].mean()),
            _estimate(gaps[:, place], drawn[:, place], level),
        )
        for place, name in enumerate(names)
    }
    both = None
    if {"f1", "tokens"} <= set(names) and len(shared) > 1:
        f1, tokens = drawn[:, names.index("f1")], drawn[:, names.index("tokens")]
        both = float(np.mean((f1 > 0) & (tokens < 0)))
    return PairedComparison(measures, len(shared), both, left_out)


def compare_over_datasets(
    first: Mapping[str, Mapping[str, Mapping[str, float]]],
    second: Mapping[str, Mapping[str, Mapping[str, float]]],
    *,
    seed: int = 0,
    resamples: int = PAIRED_RESAMPLES,
    level: float = 0.95,
) -> PairedComparison:
    """The paired difference of two methods in the simple mean over datasets, first minus second.

    Questions are resampled within each dataset, both methods and all measures on the same draws.

    Args:
        first: Per dataset and measure one value per question.
        second: The same datasets, measures and questions of the other method.
        seed: Of the resampling.
        resamples: How many.
        level: Of the intervals.

    Raises:
        ValueError: The two sides do not have the same datasets, measures and questions.
    """
    if not first or _shape(first) != _shape(second):
        raise ValueError("both sides need the same datasets, measures and questions")
    datasets = sorted(first)
    names = sorted(first[datasets[0]])
    sides = [[_columns({name: side[d][name] for name in names}) for d in datasets] for side in (first, second)]
    gaps = [ours - theirs for ours, theirs in zip(*sides, strict=True)]
    drawn = np.mean([_resampled_means(gap, (seed, place), resamples) for place, gap in enumerate(gaps)], axis=0)
    sizes = [len(gap) for gap in gaps]
    measures = {}
    for place, name in enumerate(names):
        ours, theirs = (float(np.mean([column[:, place].mean() for column in side])) for side in sides)
        low, high = _percentiles(drawn[:, place], level) if min(sizes) > 1 else (None, None)
        measures[name] = Difference(ours, theirs, Estimate(ours - theirs, low, high, sum(sizes), level, min(sizes)))
    both = None
    if {"f1", "tokens"} <= set(names) and min(sizes) > 1:
        f1, tokens = drawn[:, names.index("f1")], drawn[:, names.index("tokens")]
        both = float(np.mean((f1 > 0) & (tokens < 0)))
    return PairedComparison(measures, sum(sizes), both)


def _shape(side: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[tuple[str, str], frozenset[str]]:
    return {(d, name): frozenset(values) for d, by_name in side.items() for name, values in by_name.items()}


def _columns(measures: Mapping[str, Mapping[str, float]]) -> Floats:
    """Questions in the order of their ids, one column per measure."""
    ids = sorted(next(iter(measures.values())))
    if not ids:
        raise ValueError("there is no question to take a mean of")
    rows = [[_finite(values[question_id], question_id) for values in measures.values()] for question_id in ids]
    return np.array(rows, dtype=np.float64)


def _resampled_means(columns: Floats, seed: int | tuple[int, int], resamples: int) -> Floats:
    """Means of each column over resampled questions; the columns of one resample see the same questions."""
    if resamples < 100:
        raise ValueError(f"an interval needs at least 100 resamples, not {resamples}")
    return np.concatenate(list(_blocks(columns, np.random.default_rng(seed), resamples)))


def _blocks(columns: Floats, generator: np.random.Generator, resamples: int) -> Iterator[Floats]:
    n = len(columns)
    size = max(1, _BLOCK // n)
    for start in range(0, resamples, size):
        drawn = generator.integers(n, size=(min(size, resamples - start), n))
        yield columns[drawn].mean(axis=1)


def _estimate(values: Floats, drawn: Floats, level: float) -> Estimate:
    low, high = _percentiles(drawn, level) if len(values) > 1 else (None, None)
    return Estimate(float(values.mean()), low, high, len(values), level)


def _percentiles(drawn: Floats, level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval lies between 0 and 1, not at {level:g}")
    outside = (1 - level) / 2
    low, high = np.quantile(drawn, [outside, 1 - outside])
    return float(low), float(high)


def _finite(value: float, question_id: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"question {question_id!r} has the value {value}, which cannot be averaged")
    return float(value)
