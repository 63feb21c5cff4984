"""The comparison of calibrations: its measures on numbers that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import auto_calibration

P = np.array([0.9, 0.8, 0.8, 0.4, 0.2])
RIGHT = np.array([1.0, 1.0, 0.0, 0.0, 1.0])
ONCE = np.ones(5)


@pytest.mark.parametrize(
    ("error", "share"),
    [
        (0.0, 0.2),
        (0.3, 0.2),  # the two drafts at 0.8 are given together, and then a third is wrong
        (0.35, 0.6),
        (0.4, 1.0),
    ],
)
def test_coverage_is_the_largest_share_that_keeps_to_the_error(error: float, share: float) -> None:
    assert auto_calibration.measure_coverage(P, right=RIGHT, weights=ONCE, error=error) == pytest.approx(share)


def test_a_question_that_is_drawn_twice_counts_twice() -> None:
    twice = np.array([2.0, 1.0, 1.0, 1.0, 0.0])
    assert auto_calibration.measure_coverage(P, right=RIGHT, weights=twice, error=0.25) == pytest.approx(0.8)


def test_nothing_is_covered_where_the_surest_draft_is_wrong() -> None:
    assert auto_calibration.measure_coverage(P, right=1 - RIGHT, weights=ONCE, error=0.1) == 0.0
