"""The Pareto front of hand-made points, against its definition, and on resampled questions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.runs.statistics import pareto_front, share_on_front

STEPS = st.integers(0, 4)


def test_the_front_of_each_resample_is_its_own() -> None:
    cost = np.array([[1.0, 2.0], [2.0, 1.0]])
    quality = np.array([[0.5, 0.4], [0.5, 0.4]])
    assert pareto_front(cost, quality).tolist() == [[True, False], [True, True]]


def test_a_method_that_always_wins_is_always_on_the_front_and_one_that_always_loses_never() -> None:
    cost = np.tile([1.0, 2.0], (20, 1))
    quality = np.tile([0.9, 0.1], (20, 1))
    assert share_on_front({"d": (cost, quality)}) == [1.0, 0.0]


def test_two_methods_that_are_alike_share_the_front_by_chance() -> None:
    draws = np.random.default_rng(1)
    quality = draws.random((200, 2))
    shares = share_on_front({"d": (np.ones((200, 2)), quality - quality.mean(axis=0))})
    assert shares[0] + shares[1] == pytest.approx(1, abs=0.02)
    assert 0.3 < shares[0] < 0.7


@given(st.lists(st.tuples(STEPS, STEPS), min_size=1, max_size=12))
def test_a_point_is_on_the_front_if_and_only_if_no_other_point_beats_it(points: list[tuple[int, int]]) -> None:
    cost, quality = np.array(points, dtype=float).T
    expected = [
        not any(c <= cost_here and q >= quality_here and (c, q) != (cost_here, quality_here) for c, q in points)
        for cost_here, quality_here in points
    ]
    assert pareto_front(cost, quality).tolist() == expected
