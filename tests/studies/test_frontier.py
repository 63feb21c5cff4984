"""Quality against cost: the front of hand-made points, and paired differences on the same questions."""

from __future__ import annotations

import pytest

from beliefrag.studies import Recording, StudyContext, StudyResult
from beliefrag.studies.frontier import FrontierStudy
from tests.support.messages import mentions
from tests.support.studied import episode, recording, rows_of


def worked_out(found: Recording, **how: object) -> StudyResult:
    return FrontierStudy(**how).analyse({"comparison": found}, StudyContext())  # type: ignore[arg-type]


def compared(questions: int = 30) -> Recording:
    """Static is cheap, Iterative better and dearer, CRAG as dear as Iterative and worse."""
    f1 = {"static": 0.4, "iterative": 0.6, "crag": 0.5, "beliefrag": 0.7}
    tokens = {"static": 1000, "iterative": 4000, "crag": 4000, "beliefrag": 3000}
    return recording(
        episodes=[
            episode(method, f"q{k}", f1[method] + (0.1 if k % 2 else -0.1), tokens[method] + 10 * k, dataset=dataset)
            for dataset in ("d", "e")
            for method in f1
            for k in range(questions)
        ]
    )


def test_the_study_marks_the_front_and_gives_the_differences() -> None:
    result = worked_out(compared())
    points = rows_of(result, "points", "dataset", "name")
    front = {name: row["on the front"] for (dataset, name), row in points.items() if dataset == "mean"}
    assert front == {"Static": "yes", "Iterative": "no", "CRAG": "no", "BeliefRAG": "yes"}
    assert points["mean", "Static"]["F1"].value == pytest.approx(0.4)
    assert points["mean", "Static"]["tokens"].value == pytest.approx(1145)
    gaps = rows_of(result, "differences", "dataset", "name")
    assert gaps["mean", "Iterative"]["F1 difference"].value == pytest.approx(0.1)
    assert gaps["mean", "Iterative"]["tokens difference"].value == pytest.approx(-1000)
    assert gaps["mean", "Iterative"]["better and cheaper"] == 1.0
    assert gaps["d", "Static"]["tokens difference"].value == pytest.approx(2000)
    assert "Static, BeliefRAG." in result.findings[0]


def test_another_method_can_be_the_one_that_is_compared() -> None:
    gaps = rows_of(worked_out(compared(), of="crag", methods=("crag", "static")), "differences", "dataset", "name")
    assert {name for _, name in gaps} == {"Static"}
    assert gaps["mean", "Static"]["F1 difference"].value == pytest.approx(0.1)


def test_a_question_that_one_method_did_not_finish_is_left_out_for_all_and_told_of() -> None:
    played = [
        episode(m, f"q{k}", 0.5, 100, failed=(m, k) == ("static", 0)) for m in ("static", "beliefrag") for k in range(5)
    ]
    single = [episode(m, "q0", 0.5, 100, dataset="e") for m in ("static", "beliefrag")]
    result = worked_out(recording(episodes=[*played, *single]))
    assert rows_of(result, "differences", "name")["Static"]["n"] == 4
    assert set(rows_of(result, "points", "dataset")) == {"d"}
    assert any(mentions(note, "Left out", "fewer than 2", "e.") for note in result.notes)
    assert any(mentions(note, "Of d 1 questions", "left out") for note in result.notes)
    assert any("1 failed" in note for note in result.notes)


def test_one_method_is_no_comparison() -> None:
    result = worked_out(recording(episodes=[episode("beliefrag", f"q{k}", 0.5, 100) for k in range(5)]))
    (sentence,) = result.findings
    assert mentions(sentence, "at least two methods", "BeliefRAG")
    assert result.draw is None
    played = [episode(method, "q0", 0.5, 100) for method in ("static", "beliefrag")]
    assert "at least 2 questions" in worked_out(recording(episodes=played)).findings[0]
