from __future__ import annotations

from beliefrag.calibration.tuning import Grid
from beliefrag.calibration.tuning.grid import ANSWER, NOVELTY, RETRIEVAL_VALUE, corrects, with_corrections
from beliefrag.policy import Thresholds

OWN = Thresholds(answer=0.37, abstain=False, correct_flagged=False)


def test_the_runs_own_thresholds_are_among_our_points_and_no_point_comes_twice() -> None:
    points = Grid().points(OWN)
    assert OWN in points
    assert len(points) == len(set(points)) == (len(ANSWER) + 1) * len(RETRIEVAL_VALUE) * len(NOVELTY) * 2


def test_values_that_are_given_replace_ours_and_all_else_stays_as_in_the_run() -> None:
    points = Grid((0.7, 0.3, 0.3), (0.05,), (0.2,), (True, False)).points(OWN)
    assert [(p.answer, corrects(p)) for p in points] == [(0.3, True), (0.3, False), (0.7, True), (0.7, False)]
    assert {(p.retrieval_value, p.novelty, p.abstain, p.conflict) for p in points} == {(0.05, 0.2, False, 0.5)}


def test_corrections_on_are_those_of_the_run_or_all_where_it_had_none() -> None:
    assert with_corrections(OWN, on=True) == OWN
    off = with_corrections(OWN, on=False)
    assert not corrects(off)
    again = with_corrections(off, on=True)
    assert (again.correct_conflict, again.correct_unreliable, again.correct_flagged) == (True, True, True)


def test_what_was_asked_for_is_what_values_were_given_for() -> None:
    point = Thresholds(answer=0.3, novelty=0.4)
    assert Grid().asked_for(point) == ()
    assert Grid(answer=(0.3,), corrections=(True,)).asked_for(point) == (("answer", 0.3), ("corrections", True))
