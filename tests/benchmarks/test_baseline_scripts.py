"""The scripts that choose thresholds and sort replies of the other methods."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.methods import METHODS, MethodInputs, build_method
from beliefrag.policy import ScoreScale
from beliefrag.record import ModelCall
from beliefrag.runs.statistics import compare_over_datasets
from benchmarks.choose_thresholds import SETTINGS, compare_settings, format_settings
from benchmarks.decide.episodes import measure_rows, read_rows
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


def test_the_page_of_the_methods_has_what_the_prompts_brought_on_train_questions() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = " ".join((docs / "methods.md").read_text(encoding="utf-8").split())
    rows = read_rows(docs / "results" / "judged_prompts.csv")
    for method, form in (
        ("ircot", "F1 is {:.3f} and evidence recall {:.3f} at {:,.0f} tokens"),
        ("rl_search", "F1 {:.3f}, recall {:.3f}, at {:,.0f} tokens"),
    ):
        own = [row for row in rows if row.run == method]
        assert len(own) == 20
        means = (statistics.fmean(getattr(row, name) for row in own) for name in ("f1", "evidence_recall", "tokens"))
        assert form.format(*means) in page
    runs = {name: [row for row in rows if row.run == name] for name in ("rl_search", "rl_search_shared")}
    plain, shared = (measure_rows(own, ("f1", "tokens")) for own in runs.values())
    f1 = compare_over_datasets(shared, plain).measures["f1"]
    gain = f1.difference
    assert gain.low is not None and gain.high is not None and gain.low > 0.0
    tokens = statistics.fmean(row.tokens for row in runs["rl_search_shared"])
    interval = f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
    assert f"F1 is {f1.first:.3f} at {tokens:,.0f} tokens, {interval}" in page


def test_the_page_of_the_methods_has_the_kinds_of_reply_to_their_prompts() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = " ".join((docs / "methods.md").read_text(encoding="utf-8").split())
    judged = json.loads((docs / "results" / "judged_replies.json").read_text(encoding="utf-8"))
    again = sum(each["searches_again"] for each in judged["rl_search"])
    unread = sum("cannot be read" in each["replies"] for each in judged["rl_search"])
    assert (again, unread) == (14, 7)
    assert "14 episodes search again for words of an earlier search, seven have a reply without a tag" in page
    assert judged["rl_search_shared"] == judged["rl_search"]
    ends = Counter(each["replies"][-1] for each in judged["ircot"])
    assert (ends["comes to an answer"], ends["repeats an earlier reply"]) == (14, 5)
    assert "14 episodes come to an answer and five repeat a sentence" in page
