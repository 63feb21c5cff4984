"""The points of a guarantee: held-out questions, all of them, ended as the policy would end them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.calibration.risk import read_risk_sample
from beliefrag.errors import CalibrationError
from beliefrag.policy import Calibration, ScoreScale, Thresholds
from beliefrag.runs.record import RunRecord
from beliefrag.runs.states import Trajectory, read_trajectories
from tests.support.surveyed import HELD_OUT, QUESTIONS, knows, survey

FIT: Calibration = load_artifact("published").calibration(ScoreScale(20.0, 8.0))
RecordedQuestions = tuple[RunRecord, list[Trajectory]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RecordedQuestions:
    return read_trajectories(survey(tmp_path_factory.mktemp("survey")))


def test_every_held_out_question_is_a_point_and_no_other(recorded: RecordedQuestions) -> None:
    found = read_risk_sample(*recorded, FIT, label="f1")
    assert len(found) == len(HELD_OUT) == len(found.probability)
    asked = [int(each.removeprefix("north-q")) for each in recorded[0].datasets["north"].question_ids]
    known = [knows(k) for k in asked if k in HELD_OUT]
    assert found.correct.tolist() == known
    assert [p > 0.5 for p in found.probability] == known
    assert found.datasets == ("north",)
    assert sum(found.left_out.values()) == QUESTIONS - len(HELD_OUT)
    assert any("xfit" in reason for reason in found.left_out) and any("xsel" in reason for reason in found.left_out)


def test_questions_that_the_fit_has_seen_are_left_out_though_their_partition_is_held_out(
    recorded: RecordedQuestions,
) -> None:
    found = read_risk_sample(*recorded, FIT, label="f1", seen={f"north-q{HELD_OUT[0]}", f"north-q{HELD_OUT[1]}"})
    assert len(found) == len(HELD_OUT) - 2
    assert [count for reason, count in found.left_out.items() if "seen" in reason] == [2]


def test_a_run_without_held_out_questions_is_refused_with_the_reasons(recorded: RecordedQuestions) -> None:
    run, trajectories = recorded
    with pytest.raises(CalibrationError, match=rf"no held-out .*\b{len(HELD_OUT)}: .*seen"):
        read_risk_sample(run, trajectories, FIT, label="f1", seen={f"north-q{k}" for k in HELD_OUT})


def test_what_the_policy_declines_is_a_question_that_is_never_answered(recorded: RecordedQuestions) -> None:
    # The paper's numbers never fall below 0.41; with a higher bar the unsure questions are declined.
    strict = Thresholds(abstain_sufficiency=0.5, abstain_uncertainty=0.5, abstain_answerability=0.5)
    found = read_risk_sample(*recorded, FIT, label="f1", thresholds=strict)
    known = sum(map(knows, HELD_OUT))
    assert (len(found.probability), found.declined) == (known, len(HELD_OUT) - known)


def test_one_ending_that_is_not_on_record_refuses_all(recorded: RecordedQuestions) -> None:
    run, trajectories = recorded
    place = next(i for i, each in enumerate(trajectories) if each.question_id == f"north-q{HELD_OUT[3]}")
    short = replace(trajectories[place], states=trajectories[place].states[:1])
    with pytest.raises(CalibrationError, match=rf"\b1 of {len(HELD_OUT)} .*RETRIEVE .*step 1\b"):
        read_risk_sample(run, [*trajectories[:place], short, *trajectories[place + 1 :]], FIT, label="f1")


def test_a_question_without_a_finished_episode_is_counted(recorded: RecordedQuestions) -> None:
    run, trajectories = recorded
    rest = [each for each in trajectories if each.question_id != f"north-q{HELD_OUT[0]}"]
    found = read_risk_sample(run, rest, FIT, label="f1")
    assert len(found) == len(HELD_OUT) - 1
    assert [count for reason, count in found.left_out.items() if "finished episode" in reason] == [1]


def test_an_answer_without_a_verdict_is_refused(recorded: RecordedQuestions) -> None:
    with pytest.raises(CalibrationError, match=r"no verdict .*judge.*--label"):
        read_risk_sample(*recorded, FIT, label="judge")
