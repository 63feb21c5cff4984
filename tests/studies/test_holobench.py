"""Rows found by rows read: worked by hand, and with planted differences."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from beliefrag.record import EpisodeSummary
from beliefrag.studies import StudyContext
from beliefrag.studies.holobench import HolobenchStudy, RowCounts, highest_recall, recall_per_row
from tests.support.studied import episode, recording


def of_rows(method: str, key: str, recall: float, read: float, needed: float = 40.0) -> EpisodeSummary:
    base = episode(method, key, 0.0, 1000)
    metrics = {
        "f1": None,
        "evidence_recall": recall / 2,
        "answer_row_recall": 0.1,
        "rows_read": read,
        "rows_needed": needed,
        "row_recall_read": recall,
    }
    return replace(base, metrics=metrics)


def test_the_ceiling_by_hand() -> None:
    needed = {"a": 5.0, "b": 30.0, "c": 60.0}
    assert highest_recall(needed, 15).value == pytest.approx((1 + 0.5 + 0.25) / 3)
    assert highest_recall(needed, 60).value == 1.0


def test_recall_per_row_read_is_a_ratio_of_means() -> None:
    found = recall_per_row({"a": 0.2, "b": 0.1}, {"a": 10.0, "b": 20.0})
    assert found is not None
    # The mean of the ratios would be 12.5.
    assert found.value == pytest.approx(1000 * 0.15 / 15)
    assert recall_per_row({"a": 0.0}, {"a": 0.0}) is None


def test_a_ratio_that_is_the_same_everywhere_has_no_interval() -> None:
    ids = [f"q{k}" for k in range(30)]
    found = recall_per_row(
        {key: 0.01 * (k + 1) for k, key in enumerate(ids)}, {key: k + 1.0 for k, key in enumerate(ids)}
    )
    assert found is not None
    assert found.value == pytest.approx(10)
    assert (found.low, found.high) == (None, None)


def test_the_interval_of_a_ratio_holds_the_planted_one_and_not_another() -> None:
    ids = [f"q{k}" for k in range(200)]
    recall = {key: 0.2 if k % 2 else 0.1 for k, key in enumerate(ids)}
    read = {key: 15.0 if k % 3 else 9.0 for k, key in enumerate(ids)}
    found = recall_per_row(recall, read)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1000 * 0.15 / 13 < found.high < 15


def test_fewer_rows_for_the_same_recall_are_found() -> None:
    reads = {"static": 5.0, "iterative": 15.0, "beliefrag": 7.0}
    episodes = [of_rows(m, f"q{k}", 0.1 + 0.01 * (k % 3), read + k % 2) for m, read in reads.items() for k in range(30)]
    result = HolobenchStudy().analyse({"rows": recording(episodes=episodes)}, StudyContext())
    own = result.numbers["methods"]
    assert own["beliefrag"]["recall_per_row_read"].value > own["iterative"]["recall_per_row_read"].value
    table = next(table for table in result.tables if table.name == "differences")
    against = {row[0]: row for row in table.rows}["Iterative"]
    assert against[1].value == 0  # type: ignore[union-attr]
    assert against[2].value == -8  # type: ignore[union-attr]
    assert against[3].low > 0  # type: ignore[union-attr, operator]
    assert result.numbers["ceilings"]["15"].value == pytest.approx(15 / 40)
    assert {each.theirs for each in result.paper_values[2:]} == {0.145, 9.73, 0.152, 22.98, 0.985}
    # By hand: 145 / 9.73 and 152 / 22.98.
    assert [each.theirs for each in result.paper_values[:2]] == pytest.approx([14.902, 6.614], abs=1e-3)
    assert result.paper_values[0].ours == own["beliefrag"]["recall_per_row_read"]


def test_methods_that_are_alike_but_for_chance_do_not_differ() -> None:
    draw = random.Random(0)
    apart = 0
    for _ in range(20):
        one, other = (
            RowCounts(
                {
                    "row_recall_read": {f"q{k}": draw.random() for k in range(30)},
                    "rows_read": {f"q{k}": draw.uniform(5, 15) for k in range(30)},
                }
            )
            for _ in range(2)
        )
        found = one.efficiency_gain(other)
        assert found is not None and found.low is not None and found.high is not None
        apart += not found.low < 0 < found.high
    assert apart <= 4, "of 20 intervals of 95 %, one is to be expected apart"


def test_without_questions_about_rows_there_is_a_sentence() -> None:
    episodes = [episode(method, "q0", 0.5, 10) for method in ("static", "iterative", "beliefrag")]
    result = HolobenchStudy().analyse({"rows": recording(episodes=episodes)}, StudyContext())
    assert "at least two questions" in result.findings[0]
