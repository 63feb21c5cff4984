"""What is in the belief state: a planted signal is found, no signal is not, and matching takes out what it matches."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from beliefrag.calibration.examples import Examples, label_states
from beliefrag.runs.states import Trajectory
from beliefrag.studies import StudyContext, StudyResult, belief
from beliefrag.studies.belief import (
    DIMENSIONS,
    BeliefStudy,
    HeldOutAuc,
    belief_matrix,
    fit_scores,
    match_questions,
    measure_calibration,
    measure_held_out_auc,
    rank_correlation,
    run_permutation_test,
    signal_auc,
    split_into_levels,
)
from beliefrag.studies.study import StateTable, have_same_order
from beliefrag.types import Action
from tests.support.messages import mentions
from tests.support.studied import recording, rows_of, state, trajectory

GATE = "right among states that pass the answer gate"


@pytest.fixture(autouse=True)
def _few_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    # The interval of the joint AUC takes most of the time, and most tests are not about it.
    monkeypatch.setattr(belief, "RESAMPLES", 30)


def planted(questions: int = 120, *, strength: float, seed: int = 0, rounds: int = 2) -> list[Trajectory]:
    """Questions that are right or wrong at all their states; sufficiency leans to that by `strength`."""
    draw = random.Random(seed)
    found = []
    for k in range(questions):
        right = draw.random() < 0.5
        states = []
        for r in range(1, 1 + rounds):
            lean = 0.5 + strength * (0.5 if right else -0.5)
            values: Any = {name: draw.random() for name in ("reliability", "conflict", "uncertainty", "gap", "cost")}
            suff = min(1.0, max(0.0, draw.gauss(lean, 0.2)))
            states.append(state(right=right, rounds=r, step=r, answerability=suff, sufficiency=suff, **values))
        found.append(trajectory(f"q{k:03}", *states, dataset="de"[k % 2]))
    return found


def examples_of(trajectories: list[Trajectory]) -> Examples:
    return label_states(trajectories, "f1")[0]


def worked_out(trajectories: list[Trajectory]) -> StudyResult:
    return BeliefStudy().analyse({"comparison": recording(trajectories)}, StudyContext())


def test_the_auc_of_four_states_by_hand() -> None:
    # Right ones have 0.9 and 0.4, wrong ones 0.5 and 0.1: of four pairs three are in order.
    own = [(0.9, True), (0.4, True), (0.5, False), (0.1, False)]
    examples = examples_of([trajectory(f"q{k}", state(sufficiency=s, right=r)) for k, (s, r) in enumerate(own)])
    found = signal_auc(belief_matrix(examples)[:, 0], examples)
    assert found is not None
    assert found.value == 0.75


def test_outcomes_that_are_all_alike_have_no_auc() -> None:
    examples = examples_of([trajectory(f"q{k}", state(right=True)) for k in range(9)])
    assert signal_auc(belief_matrix(examples)[:, 0], examples) is None


def test_a_planted_signal_is_found_in_the_dimension_that_has_it() -> None:
    result = worked_out(planted(strength=0.6))
    auc = {name: row["AUC"] for name, row in rows_of(result, "auc", "signal").items()}
    assert result.numbers["best_single"] == "sufficiency"
    assert auc["sufficiency"].low > 0.75
    assert mentions(result.paper_note, "strongest", "uncertainty", "strongest here", "sufficiency")
    assert auc["reliability"].low < 0.5 < auc["reliability"].high
    exchanged = rows_of(result, "permutation", "score", "number")
    assert exchanged["sufficiency", "AUC"]["p"] < 0.001
    assert exchanged["sufficiency", "AUC"]["permuted"] == pytest.approx(0.5, abs=0.03)
    assert exchanged["reliability", "AUC"]["p"] > 0.05
    assert exchanged["answerability", GATE]["p"] < 0.001


def test_no_signal_is_not_found() -> None:
    result = worked_out(planted(strength=0.0))
    for name in ("sufficiency", "all jointly"):
        number = rows_of(result, "auc", "signal")[name]["AUC"]
        assert number.low < 0.5 < number.high, name
    exchanged = rows_of(result, "permutation", "score", "number")
    assert exchanged["sufficiency", "AUC"]["p"] > 0.05
    assert exchanged["answerability", GATE]["p"] > 0.05


def test_the_permutation_test_errs_as_often_as_it_says() -> None:
    ps = []
    for seed in range(60):
        examples = examples_of(planted(30, strength=0.0, seed=seed, rounds=3))
        found = run_permutation_test(belief_matrix(examples)[:, 0], match_questions(examples), permutations=99)
        assert found is not None
        ps.append(found.p)
    # Three states of a question have one outcome: permuting states one by one would err far more often than this.
    assert sum(p <= 0.1 for p in ps) <= 13
    assert 0.35 < float(np.mean(ps)) < 0.65


def test_scores_that_only_know_dataset_and_round_lose_everything_to_the_match() -> None:
    draw = random.Random(3)
    own = []
    for k in range(80):
        dataset = "de"[k % 2]
        right = draw.random() < (0.9 if dataset == "d" else 0.1)
        own.append(
            trajectory(f"q{k:02}", state(sufficiency=0.8 if dataset == "d" else 0.2, right=right), dataset=dataset)
        )
    examples = examples_of(own)
    scores = belief_matrix(examples)[:, 0]
    found = run_permutation_test(scores, match_questions(examples))
    assert found is not None
    assert found.observed > 0.8
    assert found.observed == pytest.approx(found.permuted)
    assert found.p == 1.0


def test_states_are_matched_on_dataset_and_rounds_reached() -> None:
    one = [state(right=True, rounds=1), state(right=False, rounds=2, step=2)]
    own = [
        trajectory("a", *one),
        trajectory("b", *one),
        trajectory("c", one[0]),
        trajectory("d", one[0], dataset="e"),
        trajectory("e", one[0], state(right=True, rounds=1, step=2), dataset="e"),
    ]
    found = match_questions(examples_of(own))
    assert (found.questions, found.with_partner) == (5, 4)
    assert sorted(len(group) for group in found.groups) == [2, 2]
    # The second state of a question in the same round takes no part.
    assert len(found.examples) == 7


def test_the_number_of_retained_passages_is_matched_where_most_still_have_a_partner() -> None:
    alike = [trajectory(f"q{k}", state(right=bool(k % 2), retained=3 + k % 2)) for k in range(12)]
    assert match_questions(examples_of(alike)).on_retained
    apart = [trajectory(f"q{k}", state(right=bool(k % 2), retained=1 + k)) for k in range(12)]
    assert not match_questions(examples_of(apart)).on_retained


def areas_of(trajectories: list[Trajectory], *, seed: int = 0, resamples: int = 40) -> HeldOutAuc:
    examples = examples_of(trajectories)
    table = belief_matrix(examples)
    scores = np.column_stack([sign * table[:, place] for place, sign in enumerate(DIMENSIONS.values())])
    found = measure_held_out_auc(table, scores, examples, seed=seed, resamples=resamples)
    assert found is not None
    return found


def test_jointly_noise_is_chance_though_a_fit_that_saw_it_does_better() -> None:
    found = [areas_of(planted(60, strength=0.0, seed=seed), resamples=2) for seed in range(12)]
    # Scores of different fits put together would give 0.46: where a part has many right states its fit has seen few.
    assert float(np.mean([each.joint.value for each in found])) == pytest.approx(0.5, abs=0.03)
    assert float(np.mean([each.single.value for each in found])) == pytest.approx(0.5, abs=0.05)
    examples = examples_of(planted(60, strength=0.0, seed=4))
    flattered = signal_auc(fit_scores(belief_matrix(examples), examples), examples)
    assert flattered is not None
    assert flattered.value > 0.55


def test_where_one_dimension_knows_all_there_is_the_others_add_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Twelve seeds divide the questions anew, and most of the time goes into the intervals.
    monkeypatch.setattr(belief, "PARTITIONS", 4)
    gains = [areas_of(planted(60, strength=0.35, seed=seed, rounds=1)).difference for seed in range(12)]
    # Six weights fitted on 48 questions fit some chance too; what that costs is seldom told as a clear loss.
    assert -0.06 < float(np.mean([gain.value for gain in gains])) < 0.01
    assert not any(gain.low is not None and gain.low > 0 for gain in gains)
    assert sum(gain.high is not None and gain.high < 0 for gain in gains) <= 3


def test_two_dimensions_that_each_know_a_half_are_better_together() -> None:
    draw = random.Random(5)
    own = []
    for k in range(200):
        one, other = draw.random(), draw.random()
        own.append(trajectory(f"q{k:03}", state(sufficiency=one, gap=other, right=one - other > 0)))
    gain = areas_of(own).difference
    assert gain.value > 0.1
    assert gain.low is not None and gain.low > 0.05


def test_an_answerability_that_rises_with_a_dimension_is_not_told_as_a_signal_of_its_own() -> None:
    result = worked_out(planted(30, strength=0.6))
    assert result.numbers["answerability_rises_with"] == "sufficiency"
    assert "answerability" not in rows_of(result, "auc", "signal")
    assert any(mentions(sentence, "sufficiency", "answerability", "falls") for sentence in result.findings)
    other = [
        replace(t, states=tuple(replace(s, answerability=0.5 + s.belief.gap / 4) for s in t.states))
        for t in planted(30, strength=0.6)
    ]
    result = worked_out(other)
    assert result.numbers["answerability_rises_with"] is None
    assert "answerability" in rows_of(result, "auc", "signal")
    assert ("answerability", "AUC") in rows_of(result, "permutation", "score", "number")


def test_scores_rise_together_whatever_their_scale_and_their_rounding() -> None:
    one = np.array([0.1, 0.2, 0.2, 0.9])
    assert have_same_order(one, np.round(1 / (1 + np.exp(-9 * one)), 6))
    assert not have_same_order(one, -one)
    assert not have_same_order(one, np.array([0.1, 0.3, 0.2, 0.9]))
    assert not have_same_order(one, np.full(4, 0.5))


def test_a_correlation_of_ranks_does_not_mind_the_scale() -> None:
    own = [trajectory(f"q{k:02}", state(sufficiency=k / 40, gap=(k / 40) ** 5, right=bool(k % 2))) for k in range(40)]
    examples = examples_of(own)
    table = belief_matrix(examples)
    rising = rank_correlation(table[:, 0], table[:, 4], examples)
    assert rising is not None
    assert rising.value == pytest.approx(1.0)
    falling = rank_correlation(table[:, 0], -table[:, 4], examples)
    assert falling is not None
    assert falling.value == pytest.approx(-1.0)
    assert rank_correlation(table[:, 0], table[:, 1], examples) is None, (
        "a dimension that does not vary correlates with nothing"
    )


def test_a_perfectly_calibrated_score_has_a_small_error_and_a_boastful_one_a_large_one() -> None:
    draw = random.Random(6)
    own = []
    for k in range(2_000):
        p = draw.random()
        own.append(trajectory(f"q{k:04}", state(sufficiency=p, reliability=0.9, right=draw.random() < p)))
    examples = examples_of(own)
    table = belief_matrix(examples)
    modest, boastful = (measure_calibration(table[:, place], examples) for place in (0, 1))
    assert modest.ece < 0.05
    assert boastful.ece == pytest.approx(0.4, abs=0.05)
    assert boastful.ece > boastful.chance_at_most


def test_actions_by_level_are_those_of_each_third() -> None:
    done = [Action.RETRIEVE] * 3 + [Action.VERIFY] * 3 + [Action.ANSWER] * 3
    visited = StateTable(trajectory(f"q{k}", state(sufficiency=k / 9, action=a)) for k, a in enumerate(done))
    found = split_into_levels(visited, "sufficiency")
    assert [(level["level"], level["states"]) for level in found] == [("low", 3), ("middle", 3), ("high", 3)]
    assert [
        level[f"{action} (share)"] for level, action in zip(found, ("RETRIEVE", "VERIFY", "ANSWER"), strict=True)
    ] == [1, 1, 1]


def test_a_dimension_that_does_not_vary_has_no_levels() -> None:
    visited = StateTable(trajectory(f"q{k}", state(sufficiency=0.5)) for k in range(9))
    assert split_into_levels(visited, "sufficiency") == []


def test_too_few_outcomes_give_a_sentence_and_no_number() -> None:
    own = [trajectory(f"q{k}", state(right=k == 0)) for k in range(20)]
    result = worked_out(own)
    assert mentions(result.findings[0], "at least", "1 and 19")
    assert (result.tables, result.draw) == ((), None)


def test_a_survey_serves_where_the_verifier_drafts_no_answers() -> None:
    bare = [trajectory(f"q{k}", state(sufficiency=k / 40)) for k in range(40)]
    surveyed = [
        trajectory(f"q{k}", state(sufficiency=k / 40, right=k >= 20, answerability=None), method="survey")
        for k in range(40)
    ]
    result = BeliefStudy().analyse({"comparison": recording([*bare, *surveyed])}, StudyContext())
    auc = rows_of(result, "auc", "signal")
    assert auc["sufficiency"]["AUC"].value == 1.0
    assert "answerability" not in auc
    assert any("of a survey" in note for note in result.notes)


def test_without_drafts_a_survey_is_run() -> None:
    assert BeliefStudy().required_runs(StudyContext(drafts_answers=False))[0].methods == ("beliefrag", "survey")
    assert BeliefStudy().required_runs(StudyContext())[0].methods == ("beliefrag",)
