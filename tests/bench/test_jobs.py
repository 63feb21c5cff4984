from __future__ import annotations

import pytest

from beliefrag.bench.plan import CostEstimate, Jobs, Plan
from beliefrag.record import EpisodeKey
from beliefrag.types import Usage

METHODS = ("static", "iterative", "crag")


def plan_of(questions: int, judged: tuple[EpisodeKey, ...] = ()) -> Plan:
    keys = tuple(EpisodeKey("d", method, f"q{number}", 0) for number in range(questions) for method in METHODS)
    return Plan(keys, judged, 0, 0, CostEstimate(Usage(), Usage(), 0.0, measured=False))


def test_one_lane_gets_the_jobs_in_the_order_of_the_plan() -> None:
    late = EpisodeKey("d", "static", "late", 0)
    plan = plan_of(3, (late,))
    jobs = Jobs(plan, lanes=1)
    taken = [jobs.take(0) for _ in range(len(jobs))]
    assert [job.key for job in taken if job] == [*plan.to_play, late]
    assert [job.only_judge for job in taken if job] == [False] * 9 + [True]
    assert (jobs.take(0), len(jobs)) == (None, 0)


def test_the_episodes_of_a_question_go_to_the_lane_that_began_it() -> None:
    jobs = Jobs(plan_of(4), lanes=2)
    taken: dict[int, list[str]] = {0: [], 1: []}
    for turn in range(12):
        job = jobs.take(turn % 2)
        assert job is not None
        taken[turn % 2].append(job.key.question_id)
    assert taken == {0: ["q0"] * 3 + ["q2"] * 3, 1: ["q1"] * 3 + ["q3"] * 3}


@pytest.mark.parametrize("lanes", [2, 5])
def test_a_lane_without_work_takes_what_waits_for_another_and_nothing_comes_twice(lanes: int) -> None:
    jobs = Jobs(plan_of(2), lanes=lanes)
    first = jobs.take(0)
    rest = [jobs.take(lanes - 1) for _ in range(5)]
    keys = [job.key for job in (first, *rest) if job]
    assert sorted(keys) == sorted(plan_of(2).to_play)
    assert not len(jobs)
