"""The states of a calibration are kept without texts, and the shipped calibration follows from the committed ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from beliefrag.calibration.selection import load_artifact
from benchmarks.calibration_states import read_states, refit, write_states
from tests.support.planted_states import planted

STATES = Path(__file__).parents[2] / "docs" / "results" / "calibration_states.jsonl.gz"


def test_states_survive_the_way_through_a_file_but_for_their_texts(tmp_path: Path) -> None:
    trajectories = planted(tmp_path, questions=20).trajectories
    file = tmp_path / "states.jsonl.gz"
    assert write_states(trajectories, file) == 20
    expected = {
        each.question_id: replace(each, states=tuple(replace(state, answer=None, reason="") for state in each.states))
        for each in trajectories
    }
    assert {each.question_id: each for each in read_states(file)} == expected
    first = file.read_bytes()
    write_states(reversed(trajectories), file)
    assert file.read_bytes() == first


def test_the_shipped_calibration_and_its_quality_follow_from_the_committed_states() -> None:
    artifact = load_artifact("qwen2.5-coder-1.5b")
    assert artifact.fit is not None and artifact.fit.retrieval_value is not None
    found = refit([*read_states(STATES)])
    assert (found.answerability, found.retrieval_value) == (artifact.answerability, artifact.retrieval_value)
    assert found.answerability_quality == artifact.fit.answerability.held_out
    assert found.retrieval_value_quality == artifact.fit.retrieval_value.held_out
    assert found.fitted_questions == set(artifact.fit.fit_questions)
    assert len(found.fitted_questions) >= 100
