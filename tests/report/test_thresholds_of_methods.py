"""A report says whose thresholds its methods ran with."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from beliefrag import bench
from beliefrag.methods import METHODS
from beliefrag.policy import Thresholds
from beliefrag.settings import PROFILES
from tests.support.studied import run_record

ALL = tuple(METHODS)


def thresholds_in_report(folder: Path, methods: tuple[str, ...] = ALL, **changes: Any) -> dict[str, str]:
    """What the Markdown report of a run with these methods says of their thresholds, by the title of the method."""
    run_record({"d": ["q"]}, methods=methods, **changes).write(folder)
    (folder / "episodes.jsonl").write_text("", encoding="utf-8")
    bench.report(folder, out=folder / "report")
    text = (folder / "report" / "report.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| thresholds of (.*?) \| (.*?) \|$", text, re.MULTILINE))


def test_a_report_says_of_every_method_with_thresholds_whose_they_are(tmp_path: Path) -> None:
    told = thresholds_in_report(tmp_path)
    assert set(told) == {METHODS.title(name) for name in ALL if METHODS[name].thresholds_from}
    assert all(re.match(r"(the authors'|the paper's|ours)", words) for words in told.values()), told
    assert {"CRAG", "FLARE", "Self-RAG*", "Adaptive-k", "Uncertainty gate", "BeliefRAG", "Lean"} <= set(told)


@pytest.mark.parametrize("name", ALL)
def test_a_method_with_a_number_to_compare_with_says_where_its_default_comes_from(name: str) -> None:
    if any(isinstance(option.default, float) for option in fields(METHODS[name].options)):
        assert METHODS[name].thresholds_from


def test_what_was_given_in_the_run_is_told_apart_from_defaults(tmp_path: Path) -> None:
    told = thresholds_in_report(
        tmp_path,
        ("static", "crag", "flare", "beliefrag"),
        method_options={"crag": "correct=0.9"},
        thresholds={**asdict(Thresholds()), "answer": 0.6},
    )
    assert set(told) == {"CRAG", "FLARE", "BeliefRAG"}
    assert told["CRAG"].startswith("given in the run: correct=0.9; otherwise the authors' values")
    assert told["FLARE"].startswith("the authors' values")
    assert told["BeliefRAG"].startswith("given in the run: answer=0.6; otherwise the paper's")


def test_a_threshold_that_a_guarantee_chose_is_told_as_chosen(tmp_path: Path) -> None:
    told = thresholds_in_report(
        tmp_path,
        ("lean",),
        settings={"max_error": 0.3},
        thresholds=asdict(PROFILES["default"].apply_to(Thresholds(decline_below=0.75))),
    )
    assert told["Lean"].startswith("chosen to keep to max_error 0.3: decline_below=0.75; otherwise the paper's")
