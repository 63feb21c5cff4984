"""The scripts that choose thresholds and sort replies of the other methods."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.methods import METHODS, MethodInputs, build_method
from beliefrag.policy import ScoreScale
from beliefrag.runs.episode import ModelCall
from benchmarks.choose_thresholds import SETTINGS
from benchmarks.decide.episodes import read_rows
from benchmarks.judge_prompts import kind_of

INPUTS = MethodInputs(load_artifact("published").calibration(ScoreScale(20.0, 8.0)))


def test_every_method_with_thresholds_gets_the_same_effort() -> None:
    with_thresholds = {each.name for each in METHODS.usable() if each.thresholds_from}
    assert set(SETTINGS) == with_thresholds - {"beliefrag"}
    assert {len(settings) for settings in SETTINGS.values()} == {5}
    for method, settings in SETTINGS.items():
        built = {str(build_method(f"{method}:{options}" if options else method, INPUTS)) for options in settings}
        assert len(built) == len(settings)


def test_the_docs_have_the_f1_and_tokens_of_each_setting_of_crag_and_the_best_one_is_in_force() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "methods.md").read_text(encoding="utf-8")
    rows = read_rows(docs / "results" / "crag_thresholds.csv")
    best = []
    for place, _ in enumerate(SETTINGS["crag"]):
        own = [row for row in rows if row.run == f"crag_{place}"]
        assert len(own) == 20
        f1 = statistics.fmean(row.f1 or 0.0 for row in own)
        assert f"| {f1:.3f} | {statistics.fmean(row.tokens for row in own):,.0f} |" in page
        best.append(f1)
    assert best[0] == max(best) and SETTINGS["crag"][0] == ""


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
    call = ModelCall(0, purpose, reply, 1, 1, "it", 0)
    assert kind_of(call, earlier) == kind
