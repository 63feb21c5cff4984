"""Bootstrap over questions: known answers, coverage, planted differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from beliefrag.runs.run_errors import UnequalQuestions
from beliefrag.runs.statistics import compare, mean_estimate, mean_over_datasets


def by_id(values: Iterable[float]) -> dict[str, float]:
    return {f"q{place:04}": float(value) for place, value in enumerate(values)}


def test_equal_values_leave_no_doubt() -> None:
    estimate = mean_estimate(by_id([0.25] * 40))
    assert (estimate.value, estimate.low, estimate.high, estimate.questions) == (0.25, 0.25, 0.25, 40)


def test_the_interval_is_that_of_theory() -> None:
    """For many values, the bootstrap interval of a mean is the normal one."""
    values = np.random.default_rng(7).normal(0.5, 0.2, 400)
    estimate = mean_estimate(by_id(values))
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.0015)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.0015)


def test_the_same_seed_gives_the_same_interval_in_any_order() -> None:
    values = by_id(np.random.default_rng(1).random(60))
    shuffled = dict(reversed(values.items()))
    assert mean_estimate(values, seed=3) == mean_estimate(shuffled, seed=3)
    assert mean_estimate(values, seed=3) != mean_estimate(values, seed=4)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(11)
    covered = 0
    for trial in range(200):
        estimate = mean_estimate(by_id(generator.random(100) < 0.4), seed=trial, resamples=400)
        assert estimate.low is not None and estimate.high is not None
        covered += estimate.low <= 0.4 <= estimate.high
    assert 0.89 <= covered / 200 <= 0.99


def test_one_question_has_no_interval_and_few_are_flagged() -> None:
    alone = mean_estimate({"a": 0.5})
    assert (alone.value, alone.low, alone.high, alone.has_few_questions) == (0.5, None, None, True)
    assert mean_estimate(by_id([0, 1] * 9)).has_few_questions
    assert not mean_estimate(by_id([0, 1] * 10)).has_few_questions


def test_datasets_weigh_the_same_whatever_their_size() -> None:
    estimate = mean_over_datasets({"large": by_id([1.0] * 300), "small": by_id([0.0] * 30)})
    assert (estimate.value, estimate.low, estimate.high, estimate.questions) == (0.5, 0.5, 0.5, 330)
    assert not estimate.has_few_questions


def test_one_small_dataset_makes_a_mean_over_datasets_doubtful() -> None:
    assert mean_over_datasets({"large": by_id([0.0, 1.0] * 100), "small": by_id([0.0, 1.0])}).has_few_questions
    assert mean_over_datasets({"large": by_id([0.0, 1.0] * 100), "single": by_id([1.0])}).low is None


def test_a_planted_difference_is_found_in_both_measures() -> None:
    generator = np.random.default_rng(5)
    hardness = generator.random(100)
    f1 = by_id(hardness)
    tokens = by_id(3000 + 500 * generator.random(100))
    better = {key: min(1.0, value + 0.04 + 0.04 * generator.random()) for key, value in f1.items()}
    cheaper = {key: value - 400 - 300 * generator.random() for key, value in tokens.items()}
    found = compare({"f1": better, "tokens": cheaper}, {"f1": f1, "tokens": tokens})
    assert found.measures["f1"].is_clear and found.measures["f1"].difference.value > 0.04
    assert found.measures["tokens"].is_clear and found.measures["tokens"].difference.value < -400
    assert found.measures["f1"].first - found.measures["f1"].second == pytest.approx(
        found.measures["f1"].difference.value
    )
    assert (found.better_and_cheaper, found.questions) == (1.0, 100)
    # Unpaired, the spread of the questions would hide it.
    own, other = mean_estimate(better), mean_estimate(f1)
    assert own.low is not None and other.high is not None and own.low < other.high


def test_better_but_dearer_is_not_better_and_cheaper() -> None:
    ones, zeros = by_id([1.0] * 30), by_id([0.0] * 30)
    found = compare({"f1": ones, "tokens": ones}, {"f1": zeros, "tokens": zeros})
    assert found.better_and_cheaper == 0.0
    assert compare({"f1": ones}, {"f1": zeros}).better_and_cheaper is None


def test_a_difference_on_few_questions_is_never_clear() -> None:
    found = compare({"f1": by_id([1.0] * 5)}, {"f1": by_id([0.0] * 5)})
    assert found.measures["f1"].difference.value == 1.0
    assert not found.measures["f1"].is_clear


def test_unequal_questions_are_refused_unless_allowed() -> None:
    first, second = {"a": 1.0, "b": 0.0, "c": 1.0}, {"a": 0.0, "b": 0.0}
    with pytest.raises(UnequalQuestions, match="1 of 3 questions") as raised:
        compare({"f1": first}, {"f1": second})
    assert "Finish the run" in raised.value.remedy
    found = compare({"f1": first}, {"f1": second}, allow_unequal=True)
    assert (found.questions, found.left_out, found.measures["f1"].first) == (2, ("c",), 0.5)


@pytest.mark.parametrize(
    ("work", "problem"),
    [
        (lambda: mean_estimate({"a": 1.0, "b": math.nan}), "cannot be averaged"),
        (lambda: mean_estimate({}), "no question"),
        (lambda: mean_over_datasets({}), "at least one dataset"),
        (lambda: compare({"f1": {"a": 1.0}}, {"em": {"a": 1.0}}), "same measures"),
    ],
)
def test_what_has_no_mean_is_refused(work: Callable[[], object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        work()
