from __future__ import annotations

from beliefrag.calibration.policy_replay import has_corrections
from beliefrag.calibration.tuning import ThresholdGrid
from beliefrag.calibration.tuning.grid import ANSWER, NOVELTY, RETRIEVAL_VALUE, set_corrections
from beliefrag.policy import Thresholds

OWN = Thresholds(answer=0.37, abstain=False, correct_flagged=False)


def test_the_runs_own_thresholds_are_among_our_points_and_no_point_comes_twice() -> None:
    points = ThresholdGrid().points(OWN)
    assert OWN in points
    assert len(points) == len(set(points)) == (len(ANSWER) + 1) * len(RETRIEVAL_VALUE) * len(NOVELTY) * 2


def test_values_that_are_given_replace_ours_and_all_else_stays_as_in_the_run() -> None:
    points = ThresholdGrid((0.7, 0.3, 0.3), (0.05,), (0.2,), (True, False)).points(OWN)
    assert [(p.answer, has_corrections(p)) for p in points] == [(0.3, True), (0.3, False), (0.7, True), (0.7, False)]
    assert {(p.retrieval_value, p.novelty, p.abstain, p.conflict) for p in points} == {(0.05, 0.2, False, 0.5)}


def test_corrections_on_are_those_of_the_run_or_all_where_it_had_none() -> None:
    assert set_corrections(OWN, on=True) == OWN
    off = set_corrections(OWN, on=False)
    assert not has_corrections(off)
    again = set_corrections(off, on=True)
    assert (again.correct_conflict, again.correct_unreliable, again.correct_flagged) == (True, True, True)


def test_what_was_given_values_is_what_values_were_given_for() -> None:
    point = Thresholds(answer=0.3, novelty=0.4)
    assert ThresholdGrid().given_values(point) == ()
    assert ThresholdGrid(answer=(0.3,), corrections=(True,)).given_values(point) == (
        ("answer", 0.3),
        ("corrections", True),
    )
