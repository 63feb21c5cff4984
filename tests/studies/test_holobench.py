"""Rows found by rows read: worked by hand, and with planted differences."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from beliefrag.record import EpisodeSummary
from beliefrag.report.table import Column
from beliefrag.studies import StudyContext
from beliefrag.studies.holobench import HolobenchStudy, highest_recall, recall_per_row
from beliefrag.studies.study import Compared
from tests.support.studied import episode, recording, rows_of

ROWS = {"row_recall_read": Column("row recall"), "rows_read": Column("rows read")}


def counted(recall: Mapping[str, float], read: Mapping[str, float]) -> Compared:
    """Return a method `beliefrag` that finds and reads these rows."""
    values = {"row_recall_read": recall, "rows_read": read}
    return Compared.on_shared_questions(["beliefrag"], ["all"], lambda *at: values[at[2]], ROWS, min_questions=1)


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
    return base.model_copy(update={"metrics": metrics})


def test_the_ceiling_by_hand() -> None:
    needed = {"a": 5.0, "b": 30.0, "c": 60.0}
    assert highest_recall(needed, 15).value == pytest.approx((1 + 0.5 + 0.25) / 3)
    assert highest_recall(needed, 60).value == 1.0


def test_recall_per_row_read_is_a_ratio_of_means() -> None:
    found = recall_per_row(counted({"a": 0.2, "b": 0.1}, {"a": 10.0, "b": 20.0}), "beliefrag")
    assert found is not None
    # The mean of the ratios would be 12.5.
    assert found.value == pytest.approx(1000 * 0.15 / 15)
    assert recall_per_row(counted({"a": 0.0}, {"a": 0.0}), "beliefrag") is None
    same = recall_per_row(
        counted({f"q{k}": 0.01 * k for k in range(1, 31)}, {f"q{k}": k for k in range(1, 31)}), "beliefrag"
    )
    assert same is not None and (same.low, same.high) == (None, None), "a ratio that is the same everywhere"


def test_fewer_rows_for_the_same_recall_are_found() -> None:
    reads = {"static": 5.0, "iterative": 15.0, "beliefrag": 7.0}
    episodes = [of_rows(m, f"q{k}", 0.1 + 0.01 * (k % 3), read + k % 2) for m, read in reads.items() for k in range(30)]
    result = HolobenchStudy().analyse({"rows": recording(episodes=episodes)}, StudyContext())
    own = {name: row["recall per row read"] for name, row in rows_of(result, "methods", "name").items()}
    assert own["BeliefRAG"].value > own["Iterative"].value
    against = rows_of(result, "differences", "name")["Iterative"]
    assert against["row recall difference"].value == 0
    assert against["rows read difference"].value == -8
    assert against["recall per row read difference"].low > 0
    ceilings = rows_of(result, "ceilings", "rows that may be read")
    assert ceilings[15]["highest row recall"].value == pytest.approx(15 / 40)
    assert {each.theirs for each in result.paper_values[2:]} == {0.145, 9.73, 0.152, 22.98, 0.985}
    # By hand: 145 / 9.73 and 152 / 22.98.
    assert [each.theirs for each in result.paper_values[:2]] == pytest.approx([14.902, 6.614], abs=1e-3)
    assert result.paper_values[0].ours == own["BeliefRAG"]
