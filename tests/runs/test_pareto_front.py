"""The Pareto front of points and of resamples, against its definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.runs.statistics import pareto_front

STEPS = st.integers(0, 4)


def test_the_front_of_each_resample_is_its_own() -> None:
    cost = np.array([[1.0, 2.0], [2.0, 1.0]])
    quality = np.array([[0.5, 0.4], [0.5, 0.4]])
    assert pareto_front(cost, quality).tolist() == [[True, False], [True, True]]


@given(st.lists(st.tuples(STEPS, STEPS), min_size=1, max_size=12))
def test_a_point_is_on_the_front_if_and_only_if_no_other_point_beats_it(points: list[tuple[int, int]]) -> None:
    cost, quality = np.array(points, dtype=float).T
    expected = [
        not any(c <= cost_here and q >= quality_here and (c, q) != (cost_here, quality_here) for c, q in points)
        for cost_here, quality_here in points
    ]
    assert pareto_front(cost, quality).tolist() == expected
