"""A report says whose thresholds its methods ran with."""

from __future__ import annotations

from dataclasses import asdict

from beliefrag.policy import Thresholds
from beliefrag.report.run_report import _describe_thresholds
from tests.support.studied import run_record


def test_a_report_tells_the_authors_thresholds_from_chosen_ones() -> None:
    run = run_record(
        {"d": ["q"]},
        methods=("static", "crag", "flare", "beliefrag"),
        method_options={"crag": "correct=0.9"},
        thresholds={**asdict(Thresholds()), "answer": 0.6},
    )
    words = dict(_describe_thresholds(run))
    assert set(words) == {"crag", "flare", "beliefrag"}
    assert words["crag"].startswith("chosen: correct=0.9; otherwise the authors'")
    assert words["flare"].startswith("the authors' values")
    assert words["beliefrag"].startswith("chosen: answer=0.6")
