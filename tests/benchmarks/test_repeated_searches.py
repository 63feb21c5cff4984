"""What a guard against repeated searches changes for Iterative is compared on the same questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.decide.episodes import read_rows
from benchmarks.find.mixed_corpus import MULTI_HOP
from benchmarks.repeated_searches import compare_iterative, format_changes
from tests.support.episode_rows import make_rows

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_iterative_is_compared_on_the_questions_that_both_tables_have() -> None:
    before = [row for name in MULTI_HOP for row in make_rows("bm25", "iterative", name, 6, f1=[0.5])]
    after = [row for name in MULTI_HOP for row in make_rows("bm25", "iterative", name, 4, f1=[1.0], tokens=500)]
    after[0] = replace(after[0], outcome="failed", f1=None)
    others = make_rows("bm25", "static", "nq", 4)
    (change,) = compare_iterative([*before, *others], [*after, *others])
    assert (change.run, change.questions) == ("bm25", (3, 4, 4))
    assert change.measures["f1"].difference.value == 0.5
    assert change.measures["tokens"].difference.value == 100
    assert "| BM25, whole passages, several facts | 3/4/4 | 0.500 | 1.000 | +0.500" in format_changes([change])


def test_the_page_has_the_table_of_the_committed_episodes() -> None:
    found = compare_iterative(read_rows(RESULTS / "iterative_before.csv"), read_rows(RESULTS / "decide_episodes.csv"))
    assert format_changes([*found]) in (RESULTS / "decide.md").read_text(encoding="utf-8")
