"""Results that need no model: the pages say what the committed rows say, and the rows come out of the scripts again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import adaptive_k_cut, score_scale
from tests.support.benchmark_files import ABSENT, BENCHMARKS

DOCS = Path(__file__).parents[2] / "docs"


def read(name: str) -> object:
    return json.loads((DOCS / "results" / name).read_text(encoding="utf-8"))


def test_the_page_of_the_score_scale_has_the_table_of_its_rows() -> None:
    measured = read("score_scale.json")
    assert isinstance(measured, list)
    assert [len(row["relevance"]) for row in measured] == [300] * 12
    page = (DOCS / "results" / "score_scale.md").read_text(encoding="utf-8")
    assert score_scale.format_relevance(measured) in page


@pytest.mark.skipif(not (BENCHMARKS / "musique").exists(), reason=ABSENT)
def test_the_rows_come_out_of_the_scripts_again() -> None:
    kept = json.loads(json.dumps(adaptive_k_cut.measure_cuts("musique", 20)))
    rows = read("adaptive_k_cut.json")
    assert isinstance(rows, dict)
    # Another copy of the set may have other questions too.
    shared = kept.keys() & rows.keys()
    assert {each: kept[each] for each in shared} == {each: rows[each] for each in shared}
    assert shared
    own = next(score_scale.measure_relevance(["musique"], 20))
    measured = read("score_scale.json")
    assert isinstance(measured, list)
    row = next(each for each in measured if each["set"] == "musique" and each["scale_from"] == "passages")
    assert (own["location"], own["scale"]) == (row["location"], row["scale"])
    shared = own["relevance"].keys() & row["relevance"].keys()
    assert shared
    assert {each: own["relevance"][each] for each in shared} == {each: row["relevance"][each] for each in shared}
