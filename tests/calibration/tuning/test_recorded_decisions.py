"""Which moves recorded states can answer for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from beliefrag.calibration.policy_replay import has_corrections
from beliefrag.calibration.tuning import ThresholdGrid, UnrecordedPointError, tune_thresholds
from beliefrag.calibration.tuning.recorded_decisions import MissingStep, list_decisions
from beliefrag.policy import Thresholds
from beliefrag.runs.partitions import Partition
from beliefrag.runs.states import Trajectory
from beliefrag.types import Action
from tests.support.messages import mentions
from tests.support.recordings import Seen, ids, planted_artifact, recorded, trajectory

OWN = Thresholds(retrieval_value=0.05)
BEGIN = Seen(0.02, 0.0)
FIT = planted_artifact()
ONE = ids(Partition.XSEL, 1)[0]
REWRITE_FIRST = "the last search brought little new; change the query first"


def corrected() -> Trajectory:
    flagged = Seen(0.4, 0.0, flagged=1, action=Action.VERIFY, reason="the verifier flagged one passage")
    rewritten = Seen(0.4, 0.0, action=Action.REWRITE, reason="weak passages are gone; look for better ones")
    return trajectory(ONE, BEGIN, flagged, rewritten, Seen(0.4, 0.0), Seen(0.9, 1.0))


def uncorrected() -> Trajectory:
    states = (BEGIN, Seen(0.4, 0.0, flagged=1), Seen(0.9, 0.7, flagged=1), Seen(0.9, 0.7, flagged=1))
    return trajectory(ONE, *states, method="survey_uncorrected")


def test_corrections_can_be_switched_off_where_both_ways_are_recorded() -> None:
    found = tune_thresholds(
        recorded([corrected(), uncorrected()], OWN), FIT, grid=ThresholdGrid((0.5,), (0.05,), (0.2,))
    )
    assert [(has_corrections(p.thresholds), p.quality) for p in found.points] == [(True, 1.0), (False, 0.7)]


@pytest.mark.parametrize(
    ("recording", "corrections", "missing", "action"),
    [
        (corrected(), False, MissingStep.NO_CORRECTION, Action.RETRIEVE),
        (uncorrected(), True, MissingStep.CORRECTION, Action.VERIFY),
    ],
)
def test_with_one_way_recorded_the_other_is_refused(
    recording: Trajectory, corrections: bool, missing: MissingStep, action: Action
) -> None:
    values = {"answer": (0.5,), "retrieval_value": (0.05,), "novelty": (0.2,)}
    found = tune_thresholds(recorded([recording], OWN), FIT, grid=ThresholdGrid(answer=(0.5,), retrieval_value=(0.05,)))
    assert {has_corrections(point.thresholds) for point in found.points} == {not corrections}
    assert {each for refusal in found.unknown_points for each in refusal.missing_steps} == {(missing, action)}
    with pytest.raises(
        UnrecordedPointError, match=f"corrections {'on' if corrections else 'off'} would give"
    ) as caught:
        tune_thresholds(recorded([recording], OWN), FIT, grid=ThresholdGrid(**values, corrections=(corrections,)))
    assert "'beliefrag calibrate collect --uncorrected'" in caught.value.remedy


def test_a_rewriting_that_was_recorded_cannot_be_left_out() -> None:
    stale = Seen(0.4, 0.0, novelty=0.1, action=Action.REWRITE, reason=REWRITE_FIRST)
    run = recorded([trajectory(ONE, BEGIN, stale, Seen(0.4, 0.0), Seen(0.9, 1.0))], OWN)
    assert tune_thresholds(run, FIT, grid=ThresholdGrid((0.5,), (0.05,), (0.15,), (True,))).points[0].quality == 1.0
    with pytest.raises(UnrecordedPointError, match=f"RETRIEVE.*{MissingStep.NO_REWRITING}"):
        tune_thresholds(run, FIT, grid=ThresholdGrid((0.5,), (0.05,), (0.05,), (True,)))


def test_beliefrags_own_episodes_tell_of_ending_earlier_and_of_nothing_beyond_their_end() -> None:
    run = recorded([trajectory(ONE, BEGIN, Seen(0.45, 0.2), Seen(0.62, 1.0), method="beliefrag")], OWN)
    grid = ThresholdGrid((0.4, 0.6), (0.05,), (0.2,), (True,))
    assert [point.quality for point in tune_thresholds(run, FIT, grid=grid).points] == [0.2, 1.0]
    with pytest.raises(UnrecordedPointError, match=MissingStep.CONTINUATION) as caught:
        tune_thresholds(run, FIT, grid=ThresholdGrid((0.7,), (0.05,), (0.2,), (True,)))
    assert "'beliefrag calibrate collect'" in caught.value.remedy


def test_an_answer_that_nobody_tried_is_refused() -> None:
    run = recorded([trajectory(ONE, BEGIN, Seen(0.6, None), Seen(0.9, 1.0))], OWN)
    with pytest.raises(UnrecordedPointError, match=f"ANSWER.*{MissingStep.ANSWER}"):
        tune_thresholds(run, FIT, grid=ThresholdGrid((0.5,), (0.05,), (0.2,), (True,)))


def about(told: Mapping[str, Any], key: str) -> Any:
    """What is said of the one decision whose words hold the key."""
    (found,) = (value for decision, value in told.items() if key in decision)
    return found


def test_the_moves_say_what_was_recorded() -> None:
    told = {move.decision: move.known for move in list_decisions(recorded([corrected(), uncorrected()], OWN))}
    ending, searching, novelty, budget = (about(told, key) for key in ("ending", "searching", "novelty", "budget, "))
    assert (ending, searching, budget) == ("yes", "yes", "no")
    assert (told["corrections on"], told["corrections off"]) == ("yes", "yes")
    assert mentions(novelty, "0.2")


def test_the_moves_say_what_was_not_recorded() -> None:
    own = trajectory(ONE, Seen(0.02, None), Seen(0.45, 0.2), Seen(0.6, 1.0), method="beliefrag")
    found = {move.decision: move for move in list_decisions(recorded([own], OWN))}
    assert about(found, "ending").known not in ("yes", "no")
    assert about(found, "ending").reason.startswith("2 of 3 ")
    assert about(found, "searching").known not in ("yes", "no")
    assert found["corrections on"].known == "yes"
    assert found["corrections off"].reason.startswith("0 of 1 ")
