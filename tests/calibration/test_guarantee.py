"""Guarantees in an artifact: what they say, what they rest on, and that they change nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from beliefrag.calibration import Artifact, Guarantee, apply_guarantee, load_artifact, select_guarantee
from beliefrag.calibration.artifact import write_artifact
from beliefrag.errors import CalibrationError
from beliefrag.policy import Thresholds
from beliefrag.types import Budget

TENTH = Guarantee(
    max_error=0.1,
    confidence=0.9,
    threshold=0.62,
    questions=132,
    answered=88,
    wrong=3,
    label="f1",
    datasets={"hotpotqa": "f00d"},
    method="by hand",
    thresholds=Thresholds(),
    budget=Budget(),
    prompts={"answer": "a1"},
    made="today",
)


def artifact(*guarantees: Guarantee) -> Artifact:
    return load_artifact("published").model_copy(update={"guarantees": guarantees})


def asked(fitted: Artifact, **changes: Any) -> Guarantee:
    usual: dict[str, Any] = {
        "max_error": 0.1,
        "confidence": 0.9,
        "thresholds": Thresholds(),
        "budget": Budget(),
        "prompts": {"answer": "a1", "judge": "j1"},
        "calibration_warnings": (),
    }
    return select_guarantee(fitted, **(usual | changes))


def test_a_guarantee_survives_the_way_through_a_file(tmp_path: Path) -> None:
    nothing = TENTH.model_copy(update={"max_error": 0.01, "threshold": None, "answered": 0, "wrong": 0})
    write_artifact(artifact(TENTH, nothing), tmp_path / "deep" / "mine.json")
    assert load_artifact(str(tmp_path / "deep" / "mine.json")).guarantees == (TENTH, nothing)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["mine.json"]


def test_a_run_goes_on_with_an_artifact_that_got_a_guarantee() -> None:
    assert artifact(TENTH).sha256 == artifact().sha256


def test_the_guarantee_that_is_asked_for_is_found_among_others() -> None:
    fifth = TENTH.model_copy(update={"max_error": 0.2, "threshold": 0.5})
    assert asked(artifact(fifth, TENTH)) == TENTH
    assert asked(artifact(fifth, TENTH), max_error=0.1 + 0.1) == fifth
    assert apply_guarantee(Thresholds(), TENTH) == Thresholds(decline_below=0.62)
    assert apply_guarantee(Thresholds(), None) == Thresholds()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"confidence": 0.95}, "10 % .*95 % confidence"),
        ({"calibration_warnings": ("borrowed, fitted for x",)}, "borrowed, fitted for x"),
        ({"thresholds": Thresholds(correct_flagged=False)}, "thresholds.correct_flagged True, not False"),
        ({"thresholds": Thresholds(merge_rewriter=False)}, "thresholds.merge_rewriter True, not False"),
        ({"budget": Budget(top_k=7)}, "budget.top_k 5, not 7"),
        ({"prompts": {"answer": "a2"}}, "another prompt answer"),
    ],
)
def test_where_it_does_not_hold_it_is_refused_with_the_reason(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CalibrationError) as caught:
        asked(artifact(TENTH), **changes)
    assert re.search(words, caught.value.message)


def test_a_target_that_no_threshold_met_is_an_error_and_no_threshold() -> None:
    with pytest.raises(CalibrationError, match=r"\b10 % .*\b132 .*hotpotqa"):
        asked(artifact(TENTH.model_copy(update={"threshold": None})))
