"""What is in the belief state: a planted signal is found, and no signal is not."""

from __future__ import annotations

import random
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
    measure_held_out_auc,
    rank_correlation,
    split_into_levels,
)
from beliefrag.studies.study import StateTable
from beliefrag.types import Action
from tests.support.messages import mentions
from tests.support.studied import recording, rows_of, state, trajectory


@pytest.fixture(autouse=True)
def _few_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    # The interval of the joint AUC takes most of the time, and most tests are not about it.
    monkeypatch.setattr(belief, "RESAMPLES", 30)


def planted(questions: int = 120, *, strength: float, seed: int = 0, rounds: int = 2) -> list[Trajectory]:
    """Return questions that are right or wrong at all their states; sufficiency leans to that by `strength`."""
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


def test_a_planted_signal_is_found_in_the_dimension_that_has_it() -> None:
    result = worked_out(planted(strength=0.6))
    auc = {name: row["AUC"] for name, row in rows_of(result, "auc", "signal").items()}
    assert result.numbers["best_single"] == "sufficiency"
    assert auc["sufficiency"].low > 0.75
    assert auc["answerability"].value == auc["sufficiency"].value
    assert auc["reliability"].low < 0.5 < auc["reliability"].high
    assert mentions(result.paper_note, "uncertainty", "sufficiency")


def areas_of(trajectories: list[Trajectory], *, seed: int = 0, resamples: int = 40) -> HeldOutAuc:
    examples = examples_of(trajectories)
    table = belief_matrix(examples)
    scores = np.column_stack([sign * table[:, place] for place, sign in enumerate(DIMENSIONS.values())])
    found = measure_held_out_auc(table, scores, examples, seed=seed, resamples=resamples)
    assert found is not None
    return found


def test_a_joint_fit_on_noise_is_chance() -> None:
    found = [areas_of(planted(60, strength=0.0, seed=seed), resamples=2) for seed in range(12)]
    # Scores of different fits put together would give 0.46: where a part has many right states its fit has seen few.
    assert float(np.mean([each.joint.value for each in found])) == pytest.approx(0.5, abs=0.03)
    assert float(np.mean([each.single.value for each in found])) == pytest.approx(0.5, abs=0.05)


def test_two_dimensions_that_each_know_a_half_are_better_together() -> None:
    draw = random.Random(5)
    own = []
    for k in range(200):
        one, other = draw.random(), draw.random()
        own.append(trajectory(f"q{k:03}", state(sufficiency=one, gap=other, right=one - other > 0)))
    gain = areas_of(own).difference
    assert gain.value > 0.1
    assert gain.low is not None and gain.low > 0.05


def test_a_correlation_of_ranks_does_not_depend_on_the_scale() -> None:
    own = [trajectory(f"q{k:02}", state(sufficiency=k / 40, gap=(k / 40) ** 5, right=bool(k % 2))) for k in range(40)]
    examples = examples_of(own)
    table = belief_matrix(examples)
    rising, falling = (rank_correlation(table[:, 0], sign * table[:, 4], examples) for sign in (1, -1))
    assert rising is not None and falling is not None
    assert [rising.value, falling.value] == pytest.approx([1.0, -1.0])
    assert rank_correlation(table[:, 0], table[:, 1], examples) is None, "a constant correlates with nothing"


def test_calibration_errors_and_curves_by_hand() -> None:
    own = [trajectory(f"q{k}", state(sufficiency=0.25, reliability=0.95, right=k % 4 == 0)) for k in range(40)]
    result = worked_out(own)
    errors = {name: row["ECE"] for name, row in rows_of(result, "calibration", "score").items()}
    assert (errors["sufficiency"], errors["reliability"]) == (pytest.approx(0), pytest.approx(0.7))
    curve = rows_of(result, "reliability", "score")["reliability"]
    assert (curve["from"], curve["states"], curve["right"]) == (0.9, 40, 0.25)


def test_actions_by_level_are_those_of_each_third() -> None:
    done = [Action.RETRIEVE] * 3 + [Action.VERIFY] * 3 + [Action.ANSWER] * 3
    visited = StateTable(trajectory(f"q{k}", state(sufficiency=k / 9, action=a)) for k, a in enumerate(done))
    found = split_into_levels(visited, "sufficiency")
    assert [(level["level"], level["states"]) for level in found] == [("low", 3), ("middle", 3), ("high", 3)]
    shares = [level[f"{act} (share)"] for level, act in zip(found, ("RETRIEVE", "VERIFY", "ANSWER"), strict=True)]
    assert shares == [1, 1, 1]
    assert split_into_levels(visited, "gap") == [], "a dimension that does not vary has no levels"


def test_too_few_outcomes_give_a_sentence_and_no_number() -> None:
    own = [trajectory(f"q{k}", state(right=k == 0)) for k in range(20)]
    result = worked_out(own)
    assert mentions(result.findings[0], "at least", "1 and 19")
    assert (result.tables, result.draw) == ((), None)


def test_a_survey_serves_if_the_verifier_drafts_no_answers() -> None:
    assert BeliefStudy().required_runs(StudyContext(drafts_answers=False))[0].methods == ("beliefrag", "survey")
    assert BeliefStudy().required_runs(StudyContext())[0].methods == ("beliefrag",)
    bare = [trajectory(f"q{k}", state(sufficiency=k / 40)) for k in range(40)]
    surveyed = [
        trajectory(f"q{k}", state(sufficiency=k / 40, right=k >= 20, answerability=None), method="survey")
        for k in range(40)
    ]
    result = worked_out([*bare, *surveyed])
    auc = rows_of(result, "auc", "signal")
    assert auc["sufficiency"]["AUC"].value == 1.0
    assert "answerability" not in auc
    assert any("of a survey" in note for note in result.notes)
