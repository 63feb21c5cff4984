"""What is fitted for lean: the value of its moves, and guarantees from its own episodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.calibrate import collection_spec
from beliefrag.calibration import fitting, load_artifact
from beliefrag.calibration.artifact import Artifact, write_artifact
from beliefrag.calibration.examples import label_moves, label_states, mean_move_cost
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.calibration.guarantee_from_run import read_risk_sample
from beliefrag.calibration.selection import RunConditions, find_calibration_warnings, select_artifact
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.policy import ScoreScale
from beliefrag.runs.partitions import Partition
from beliefrag.types import Action
from tests.support.messages import mentions
from tests.support.planted_states import planted, with_moves


@pytest.fixture(autouse=True)
def _few_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "RESAMPLES", 12)


def test_a_move_is_positive_where_it_turned_a_wrong_answer_right(tmp_path: Path) -> None:
    trajectories = with_moves(planted(tmp_path, questions=200)).trajectories
    for place, move in ((1, "reason"), (2, "search")):
        wrong = [each.states for each in trajectories if not any(s.correct("f1") for s in each.states[: place + 1])]
        found = label_moves(trajectories, "f1", move)
        assert len(found) == len(wrong)
        assert found.count.positive == sum(bool(states[place + 1].correct("f1")) for states in wrong)
    assert mean_move_cost(trajectories, "reason") == 100.0
    assert mean_move_cost(trajectories, "never made") == 0.0


def test_states_after_a_move_say_nothing_about_first_reads(tmp_path: Path) -> None:
    collection = with_moves(planted(tmp_path, questions=40))
    before = [state for each in collection.trajectories for state in each.states[:2] if state.retained]
    examples, _ = label_states(collection.trajectories, "f1")
    assert {id(state) for state in examples.states} == {id(state) for state in before}


def test_the_fit_has_a_value_for_every_move_that_was_tried(tmp_path: Path) -> None:
    artifact = fit_artifact(with_moves(planted(tmp_path, questions=400)), "f1")
    assert artifact.moves is not None and set(artifact.moves) == {"reason", "search"}
    tried = label_moves(with_moves(planted(tmp_path / "again", questions=400)).trajectories, "f1", "reason")
    rate = tried.select_part(Partition.XFIT).rate
    value = artifact.moves["reason"].function().value
    assert value.probability(rounds=2, novelty=0.5, sufficiency=0.45) == pytest.approx(rate, abs=0.12)
    file = tmp_path / "mine.json"
    write_artifact(artifact, file)
    assert load_artifact(str(file)) == artifact
    assert artifact.calibration(None).moves["search"].tokens == 100.0


def test_a_move_with_few_outcomes_is_worth_their_share_and_a_warning_says_so(tmp_path: Path) -> None:
    artifact = fit_artifact(with_moves(planted(tmp_path, questions=30)), "f1")
    assert artifact.moves is not None and artifact.fit is not None
    assert artifact.moves["reason"].value.sufficiency == 0.0
    assert any(mentions(warning, "reason", "too few") for warning in artifact.fit.warnings)


def test_other_fits_have_no_moves_and_keep_their_hash(tmp_path: Path) -> None:
    artifact = fit_artifact(planted(tmp_path, questions=60), "f1")
    assert artifact.moves is None
    held = artifact.model_dump(mode="json")
    del held["moves"]
    assert Artifact.model_validate(held).sha256 == artifact.sha256


def test_an_episode_of_lean_is_a_point_with_its_own_probability(tmp_path: Path) -> None:
    collection = planted(tmp_path, questions=60)
    own = [
        replace(
            each,
            method="lean",
            states=(*each.states[:-1], replace(each.states[-1], answerability=0.7, action=Action.ANSWER)),
        )
        for each in collection.trajectories
    ]
    fit = load_artifact("published").calibration(ScoreScale(20.0, 8.0))
    found = read_risk_sample(collection.runs[0], own, fit, label="f1")
    assert set(found.points.probability.tolist()) == {0.7}
    held = [each for each in own if each.partition is Partition.XHOLD]
    assert found.points.correct.tolist() == [bool(each.states[-1].correct("f1")) for each in held]


def test_a_calibration_of_drafts_is_taken_for_another_retriever_with_a_warning(tmp_path: Path) -> None:
    artifact = fit_artifact(planted(tmp_path, questions=60), "f1")
    file = tmp_path / "mine.json"
    write_artifact(artifact, file)
    here = RunConditions(artifact.backbone, artifact.verifier, artifact.prompts, "another engine")
    with pytest.raises(CalibrationError, match="another engine"):
        select_artifact(here, calibration=str(file))
    taken = select_artifact(here, calibration=str(file), any_retriever=True)
    assert taken == artifact
    assert any("another engine" in warning for warning in find_calibration_warnings(taken, here))
    other_form = replace(here, verifier="graded")
    with pytest.raises(CalibrationError, match="graded"):
        select_artifact(other_form, calibration=str(file), any_retriever=True)


def test_states_are_collected_for_the_method_that_is_named() -> None:
    from beliefrag.bench import RunSpec

    assert collection_spec(RunSpec(), method="lean").methods == ("lean_survey",)
    assert collection_spec(RunSpec(), method="lean", moves=False).methods == ("lean_reads",)
    with pytest.raises(SettingsError, match="moves"):
        collection_spec(RunSpec(), method="beliefrag", moves=False)
    assert collection_spec(RunSpec()).methods == ("survey",)
    for method, uncorrected in (("static", False), ("lean", True)):
        with pytest.raises(SettingsError, match=method):
            collection_spec(RunSpec(), method=method, uncorrected=uncorrected)
