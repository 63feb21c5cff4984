"""Tuning on made-up recordings whose best operating point is known beforehand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beliefrag.calibration.tuning import (
    OperatingPoint,
    ThresholdGrid,
    TuningError,
    TuningGoal,
    UnknownPoint,
    UnrecordedPointError,
    tune_thresholds,
)
from beliefrag.calibration.tuning.recorded_decisions import MissingStep
from beliefrag.policy import Thresholds
from beliefrag.runs.partitions import Partition
from beliefrag.runs.states import Trajectory
from beliefrag.runs.statistics import mean_estimate
from beliefrag.types import Action
from tests.support.messages import mentions
from tests.support.recordings import STEP, Seen, ids, planted_artifact, recorded, trajectory

XSEL, XHOLD = Partition.XSEL, Partition.XHOLD
OWN = Thresholds(retrieval_value=0.05)
BEGIN = Seen(0.02, 0.0)
FIT = planted_artifact()


def easy(name: str, dataset: str = "d") -> Trajectory:
    """Right after the first search, spoilt by the third."""
    return trajectory(name, BEGIN, Seen(0.82, 1.0), Seen(0.82, 1.0), Seen(0.99, 0.4), dataset=dataset)


def hard(name: str, dataset: str = "d") -> Trajectory:
    """Right after the second search, spoilt by the third."""
    return trajectory(name, BEGIN, Seen(0.42, 0.0), Seen(0.82, 1.0), Seen(0.99, 0.4), dataset=dataset)


def stale(name: str) -> Trajectory:
    """As the hard ones, but its first search brought little that a second search would not bring again."""
    return trajectory(name, BEGIN, Seen(0.42, 0.0, novelty=0.3), Seen(0.82, 1.0), Seen(0.99, 0.4))


def mixed(part: Partition) -> Iterator[Trajectory]:
    """Half easy, half hard: an answer threshold above 0.42 and up to 0.82 is best, with two searches allowed."""
    for place, name in enumerate(ids(part, 20)):
        yield (easy if place % 2 else hard)(name)


def cost(searches: float) -> float:
    return searches * STEP + STEP // 10


def test_the_planted_best_point_is_found_and_reported_on_held_out_questions() -> None:
    own = Thresholds(answer=0.9, retrieval_value=0.05)
    found = tune_thresholds(
        recorded([*mixed(XSEL), *mixed(XHOLD)], own),
        FIT,
        grid=ThresholdGrid(),
        goal=TuningGoal(max_tokens=2_000),
    )
    assert found.chosen and found.held_out_check
    assert (found.chosen.quality, found.chosen.tokens) == (1.0, cost(1.5))
    # Every answer threshold above 0.42 and up to 0.82 gives that; 0.8 is the nearest to what the run had.
    assert found.chosen.thresholds == Thresholds(answer=0.8, retrieval_value=0.05)
    assert isinstance(found.held_out_check.chosen, OperatingPoint) and isinstance(
        found.held_out_check.current, OperatingPoint
    )
    assert found.held_out_check.chosen.quality == 1.0
    assert found.held_out_check.current.quality == pytest.approx(0.4)
    assert found.held_out_check.differences["quality"].value == pytest.approx(0.6)
    gap = found.held_out_check.differences["tokens"]
    assert gap.value == pytest.approx(-1_500)
    assert gap.low is not None and gap.high is not None and -2_000 <= gap.low < -1_500 < gap.high <= -1_000


def test_the_frontier_is_what_nothing_beats_without_costing_more() -> None:
    found = tune_thresholds(recorded(mixed(XSEL), OWN), FIT, grid=ThresholdGrid())
    assert [(p.quality, p.tokens) for p in found.frontier] == [(0.5, cost(1)), (1.0, cost(1.5))]
    assert (found.chosen, found.held_out_check) == (None, None)
    spoilt = [p for p in found.points if p.thresholds.answer > 0.82 and p.thresholds.retrieval_value <= 0.05]
    assert spoilt
    assert all(p.quality == pytest.approx(0.4) and p.tokens == cost(3) for p in spoilt)


def test_a_tight_budget_and_a_low_floor_choose_the_cheap_point() -> None:
    run = recorded(mixed(XSEL), OWN)
    for goal in (TuningGoal(max_tokens=cost(1.5) - 1), TuningGoal(max_tokens=cost(1)), TuningGoal(min_quality=0.5)):
        found = tune_thresholds(run, FIT, grid=ThresholdGrid(), goal=goal)
        assert found.chosen
        assert (found.chosen.quality, found.chosen.tokens) == (0.5, cost(1))
    found = tune_thresholds(run, FIT, grid=ThresholdGrid(), goal=TuningGoal(min_quality=0.51))
    assert found.chosen and found.chosen.quality == 1.0


@pytest.mark.parametrize("goal", [TuningGoal(max_tokens=cost(1) - 1), TuningGoal(min_quality=1.01)])
def test_a_goal_that_no_point_meets_chooses_nothing(goal: TuningGoal) -> None:
    found = tune_thresholds(recorded([*mixed(XSEL), *mixed(XHOLD)], OWN), FIT, grid=ThresholdGrid(), goal=goal)
    assert (found.chosen, found.held_out_check) == (None, None)
    assert found.frontier


def test_a_point_that_is_best_on_xsel_alone_keeps_its_own_figures_on_xhold() -> None:
    # On xsel the second search is what makes answers right; on xhold it spoils them.
    spoilt = [trajectory(name, BEGIN, Seen(0.42, 1.0), Seen(0.82, 0.2), Seen(0.99, 0.2)) for name in ids(XHOLD, 20)]
    own = Thresholds(answer=0.4, retrieval_value=0.05)
    run = recorded([*(hard(name) for name in ids(XSEL, 20)), *spoilt], own)
    found = tune_thresholds(run, FIT, grid=ThresholdGrid(), goal=TuningGoal(max_tokens=5_000))
    assert found.chosen and found.held_out_check
    assert found.chosen.quality == 1.0
    assert isinstance(found.held_out_check.chosen, OperatingPoint) and isinstance(
        found.held_out_check.current, OperatingPoint
    )
    assert found.held_out_check.chosen.quality == pytest.approx(0.2)
    assert found.held_out_check.current.quality == 1.0
    assert found.held_out_check.differences["quality"].value == pytest.approx(-0.8)
    assert set(found.held_out_check.chosen.values["quality"]["d"]) == set(ids(XHOLD, 20))
    assert set(found.chosen.values["quality"]["d"]) == set(ids(XSEL, 20))


def test_the_choice_is_the_same_whatever_the_held_out_questions_hold() -> None:
    goal = TuningGoal(max_tokens=1_800)
    known = tune_thresholds(recorded([*mixed(XSEL), *mixed(XHOLD)], OWN), FIT, grid=ThresholdGrid(), goal=goal)
    untried = [trajectory(name, BEGIN, Seen(0.5, None), Seen(0.5, None)) for name in ids(XHOLD, 5)]
    unknown = tune_thresholds(recorded([*mixed(XSEL), *untried], OWN), FIT, grid=ThresholdGrid(), goal=goal)
    assert known.chosen == unknown.chosen
    assert known.frontier == unknown.frontier


def test_a_choice_that_leaves_the_record_on_xhold_is_not_estimated_there() -> None:
    names = ids(XHOLD, 6)
    untried = [trajectory(name, BEGIN, Seen(0.9, None), Seen(0.9, 1.0)) for name in names[:2]]
    run = recorded([*mixed(XSEL), *untried, *(hard(name) for name in names[2:])], OWN)
    found = tune_thresholds(run, FIT, grid=ThresholdGrid(), goal=TuningGoal(max_tokens=2_000))
    assert found.held_out_check
    assert isinstance(found.held_out_check.chosen, UnknownPoint)
    assert (found.held_out_check.chosen.affected, found.held_out_check.chosen.questions) == (2, 6)
    assert found.held_out_check.differences == {}


def test_fitting_questions_play_no_part() -> None:
    plain = tune_thresholds(recorded(mixed(XSEL), OWN), FIT, grid=ThresholdGrid())
    fitting = [trajectory(name, BEGIN, Seen(0.9, None)) for name in ids(Partition.XFIT, 5)]
    assert tune_thresholds(recorded([*mixed(XSEL), *fitting], OWN), FIT, grid=ThresholdGrid()).points == plain.points


def test_intervals_are_those_of_the_bench_and_datasets_weigh_alike() -> None:
    names = ids(XSEL, 24)
    one, other = [easy(name) for name in names[:4]], [hard(name, "e") for name in names[4:]]
    grid = ThresholdGrid((0.3,), (0.05,), (0.2,), (True,))
    uneven = tune_thresholds(recorded([*one, *(hard(name) for name in names[4:])], OWN), FIT, grid=grid).points[0]
    assert uneven.means["quality"] == mean_estimate({name: float(name in names[:4]) for name in names})
    both = tune_thresholds(recorded([*one, *other], OWN), FIT, grid=grid).points[0]
    assert both.quality == pytest.approx(0.5), "four right answers of one dataset, twenty wrong ones of the other"
    assert (both.means["quality"].questions, both.means["quality"].has_few_questions) == (24, True)


def test_an_abstention_scores_nothing_and_pays_for_no_answer() -> None:
    run = recorded((hard(name) for name in ids(XSEL, 3)), Thresholds())
    point = tune_thresholds(run, FIT, grid=ThresholdGrid((0.5,), (0.6,), (0.2,), (True,))).points[0]
    # No search is worth 0.6, so nothing is found, and with nothing found it abstains.
    means = {name: mean.value for name, mean in point.means.items()}
    assert means == {"quality": 0.0, "tokens": 0.0, "rounds": 0.0, "abstained": 1.0}


def test_one_question_that_leaves_the_record_refuses_the_point_for_all() -> None:
    names = ids(XSEL, 10)
    run = recorded([stale(names[0]), *(hard(name) for name in names[1:])], OWN)
    found = tune_thresholds(
        run, FIT, grid=ThresholdGrid(answer=(0.4, 0.6), retrieval_value=(0.05,), corrections=(True,))
    )
    told = {(p.thresholds.answer, p.thresholds.novelty) for p in found.points}
    assert told == {(0.4, 0.0), (0.4, 0.1), (0.4, 0.2), (0.4, 0.4), (0.6, 0.0), (0.6, 0.1), (0.6, 0.2)}
    (refused,) = found.unknown_points
    assert (refused.thresholds.answer, refused.thresholds.novelty) == (0.6, 0.4)
    assert (refused.affected, refused.questions, refused.main_missing_step[1]) == (1, 10, Action.REWRITE)


def test_a_refused_point_that_was_asked_for_is_an_error_that_says_what_to_collect() -> None:
    names = ids(XSEL, 10)
    run = recorded([stale(names[0]), *(hard(name) for name in names[1:])], OWN)
    with pytest.raises(UnrecordedPointError) as caught:
        tune_thresholds(run, FIT, grid=ThresholdGrid((0.4, 0.6), (0.05,), (0.4,), (True,)))
    message = caught.value.message
    assert mentions(message, "answer 0.6", "retrieval value 0.05", "novelty 0.4", "corrections on")
    assert "1 of 10 questions" in message
    assert message.endswith(f"REWRITE: {MissingStep.REWRITING}.")
    assert "novelty = 0.4 under [thresholds]" in caught.value.remedy


def test_nothing_to_choose_on_is_an_error() -> None:
    with pytest.raises(TuningError, match=r"None of the 3 .* xsel"):
        tune_thresholds(recorded((easy(name) for name in ids(XHOLD, 3)), OWN), FIT, grid=ThresholdGrid())


def test_a_calibration_that_saw_the_questions_is_told_of() -> None:
    run = recorded(mixed(XSEL), OWN)
    assert tune_thresholds(run, FIT, grid=ThresholdGrid((0.5,))).notes == ()
    (note,) = tune_thresholds(run, planted_artifact(contaminated=True), grid=ThresholdGrid((0.5,))).notes
    assert "held out" in note and "xhold" in note
