"""The states of a calibration are kept without texts, and the shipped calibration follows from the committed ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from beliefrag.calibration.artifact import load_artifact
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.states import State
from benchmarks.calibration_states import check, read_states, refit, write_states
from tests.support.planted_states import change, planted

STATES = Path(__file__).parents[2] / "docs" / "results" / "calibration_states.jsonl.gz"


def test_states_survive_the_way_through_a_file_but_for_their_texts(tmp_path: Path) -> None:
    trajectories = planted(tmp_path, questions=20).trajectories
    file = tmp_path / "states.jsonl.gz"
    assert write_states(trajectories, file) == 20

    def without_texts(state: State) -> State:
        assert state.step.attempt
        return change(state, attempt=replace(state.step.attempt, answer=""), search=None, evidence=())

    expected = {each.question_id: replace(each, states=tuple(map(without_texts, each.states))) for each in trajectories}
    assert {each.question_id: each for each in read_states(file)} == expected
    first = file.read_bytes()
    write_states(reversed(trajectories), file)
    assert file.read_bytes() == first


def test_the_shipped_calibration_and_its_quality_follow_from_the_committed_states() -> None:
    artifact = load_artifact("qwen2.5-coder-1.5b")
    assert artifact.fit is not None
    found = refit([*read_states(STATES)])
    assert (found.answerability, found.retrieval_value) == (artifact.answerability, artifact.retrieval_value)
    assert found.fitted_questions == set(artifact.fit.fit_questions)
    assert len(found.fitted_questions) >= 100
    assert artifact.fit.retrieval_value is not None
    assert found.answerability_quality == artifact.fit.answerability.held_out
    assert found.retrieval_value_quality == artifact.fit.retrieval_value.held_out


def test_how_good_both_fits_are_is_measured_on_held_out_questions_alone(tmp_path: Path) -> None:
    trajectories = planted(tmp_path, questions=60).trajectories
    of_part = {each.question_id: partition(each.question_id) for each in trajectories}
    found = refit(trajectories)
    held_out = [name for name, part in of_part.items() if part is Partition.XHOLD]
    assert found.answerability_quality is not None and found.retrieval_value_quality is not None
    assert found.answerability_quality.questions == len(held_out)
    fitted = [each for each in trajectories if of_part[each.question_id] is Partition.XFIT]
    alone = refit(fitted)
    assert (alone.answerability, alone.retrieval_value) == (found.answerability, found.retrieval_value)
    assert alone.answerability_quality is None and alone.retrieval_value_quality is None


def test_a_calibration_is_measured_on_questions_that_it_has_not_seen(tmp_path: Path) -> None:
    collection = planted(tmp_path, questions=120)
    artifact = fit_artifact(collection, "f1")
    assert artifact.fit is not None and artifact.fit.answerability.held_out is not None
    found = check(artifact, collection.trajectories)
    # The states it has not seen are those that it was held out on when it was fitted.
    assert found["overall"] == artifact.fit.answerability.held_out.model_dump() == found["datasets"]["made-up"]
