"""The scripts that choose thresholds and sort replies of the other methods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.methods import METHODS, MethodInputs, build_method
from beliefrag.policy import ScoreScale
from beliefrag.record import ModelCall
from benchmarks.choose_thresholds import SETTINGS, compare_settings, format_settings
from benchmarks.decide.episodes import read_rows
from benchmarks.judge_prompts import kind_of
from tests.support.episode_rows import make_rows

INPUTS = MethodInputs(load_artifact("published").calibration(ScoreScale(20.0, 8.0)))


def test_every_other_method_with_thresholds_has_five_different_settings_to_try() -> None:
    with_thresholds = {each.name for each in METHODS.usable() if each.thresholds_from}
    assert set(SETTINGS) == with_thresholds - {"beliefrag", "lean"}
    assert {len(settings) for settings in SETTINGS.values()} == {5}
    for method, settings in SETTINGS.items():
        built = {str(build_method(f"{method}:{options}" if options else method, INPUTS)) for options in settings}
        assert len(built) == len(settings)


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


def test_settings_are_compared_on_the_questions_that_no_setting_failed() -> None:
    rows = [make_rows(f"crag_{place}", "crag", "hotpotqa", 20) for place in range(5)]
    rows[2][0] = replace(rows[2][0], outcome="failed", f1=None)
    assert {each.questions for each in compare_settings(row for own in rows for row in own)} == {19}
    with pytest.raises(ValueError, match="no run crag_4"):
        list(compare_settings(row for own in rows[:4] for row in own))


@pytest.mark.parametrize(
    ("purpose", "reply", "earlier", "kind"),
    [
        ("reasoner", "So the answer is: Oslo.", [], "comes to an answer at once"),
        ("reasoner", "So the answer is: Oslo.", ["A fact."], "comes to an answer"),
        ("reasoner", "A fact.", ["A fact."], "repeats an earlier reply"),
        ("dialogue", "<think>x</think> <search>y", [], "searches"),
        ("dialogue", "Oslo", [], "no tag"),
        ("router", "B", ["B"], "b"),
        ("trigger", "No.", [], "no"),
    ],
)
def test_replies_are_sorted_by_what_is_wrong_with_them(purpose: str, reply: str, earlier: list[str], kind: str) -> None:
    call = ModelCall(purpose=purpose, reply=reply, tokens_in=1, tokens_out=1, counted_by="it")
    assert kind_of(call, earlier) == kind
