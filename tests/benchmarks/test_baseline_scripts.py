"""The scripts that choose thresholds and sort replies of the other methods."""

from __future__ import annotations

from pathlib import Path

from benchmarks.choose_thresholds import SETTINGS, compare_settings, format_settings
from benchmarks.decide.episodes import read_rows
from tests.support.episode_rows import make_rows


def test_the_docs_have_each_setting_of_crag_and_none_is_shown_to_be_better_than_the_one_in_force() -> None:
    docs = Path(__file__).parents[2] / "docs"
    tried = list(compare_settings(read_rows(docs / "results" / "crag_thresholds.csv")))
    assert [each.options for each in tried] == SETTINGS["crag"]
    page = (docs / "methods.md").read_text(encoding="utf-8")
    for line in format_settings(tried).splitlines()[2:]:
        assert line.removeprefix("| crag ") in page
    assert not any(each.is_shown_to_be_better for each in tried)


def test_a_setting_takes_the_place_of_the_defaults_only_where_it_is_shown_to_be_better() -> None:
    figures = ([0.0], [0.5, 0.4], [0.0], [1.0, *[0.0] * 19], [0.0])
    rows = [make_rows(f"crag_{place}", "crag", "hotpotqa", 20, f1=f1) for place, f1 in enumerate(figures)]
    tried = list(compare_settings(row for own in rows for row in own))
    assert [each.is_shown_to_be_better for each in tried] == [False, True, False, False, False]
    assert not any(each.is_shown_to_be_better for each in compare_settings(row for own in rows for row in own[:19]))
