"""What thresholds mean: medians and quantiles by hand, gates on planted states, and what was never reached."""

from __future__ import annotations

import numpy as np
import pytest

from beliefrag.policy import Thresholds
from beliefrag.runs.states import Trajectory
from beliefrag.studies import StudyContext, StudyResult
from beliefrag.studies.study import StateTable
from beliefrag.studies.thresholds import GATES, ThresholdsStudy, measure_gate, medians, spread_over, weighted_quantile
from tests.support.messages import mentions
from tests.support.studied import recording, rows_of, state, trajectory

DEFAULT = Thresholds()


def worked_out(trajectories: list[Trajectory]) -> StudyResult:
    return ThresholdsStudy().analyse({"comparison": recording(trajectories)}, StudyContext())


def spread_apart(shift: float, questions: int = 40) -> list[Trajectory]:
    """Return two datasets whose raw scores lie so far apart, and whose calibrated ones lie alike."""
    return [
        trajectory(
            f"q{k}",
            state(sufficiency=0.3 + shift * (name == "e") + 0.001 * k, answerability=0.4 + 0.005 * k),
            dataset=name,
        )
        for name in ("d", "e")
        for k in range(questions)
    ]


@pytest.mark.parametrize(
    ("values", "weights", "q", "expected"),
    [
        ([3.0, 1.0, 2.0], [1.0, 1.0, 1.0], 0.5, 2.0),
        ([4.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0], 0.5, 2.5),
        ([1.0, 2.0, 3.0], [1.0, 1.0, 3.0], 0.5, 3.0),
        ([1.0, 2.0, 3.0], [3.0, 1.0, 0.0], 0.5, 1.0),
        ([1.0, 2.0], [0.0, 5.0], 0.5, 2.0),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0], 0.25, 1.5),
        ([7.0], [2.0], 0.5, 7.0),
    ],
)
def test_a_weighted_quantile_by_hand(values: list[float], weights: list[float], q: float, expected: float) -> None:
    assert weighted_quantile(np.array(values), np.array([weights]), q).tolist() == [expected]


def test_medians_and_the_quantile_of_the_threshold_are_those_worked_out_by_hand() -> None:
    scores = {"d": (0.2, 0.4, 0.6), "e": (0.5, 0.7, 0.9, 0.9)}
    own = [trajectory(f"q{k}", state(answerability=p), dataset=d) for d in scores for k, p in enumerate(scores[d])]
    visited = StateTable(own)
    score = visited.column(lambda s: s.answerability or 0.0)
    middle = [medians(visited, score, name) for name in ("d", "e")]
    assert [visited.estimate(each).value for each in middle] == pytest.approx([0.4, 0.8])
    assert visited.estimate(spread_over(middle)).value == pytest.approx(0.4)
    result = worked_out(own)
    scales = rows_of(result, "scales", "dataset")
    below = {name: row["calibrated below threshold"].value for name, row in scales.items()}
    # A state that is at the threshold is answered, so it is not below it.
    assert below == pytest.approx({"d": 2 / 3, "e": 0.0, "all": 2 / 7})
    spread = rows_of(result, "spreads", "of")["quantile of the answer threshold, calibrated"]["spread"]
    assert spread.value == pytest.approx(2 / 3)


def test_a_planted_shift_between_datasets_is_found_in_the_score_that_has_it_and_in_no_other() -> None:
    spreads = rows_of(worked_out(spread_apart(0.3)), "spreads", "of")
    raw = spreads["medians, raw"]["spread"]
    assert raw.value == pytest.approx(0.3, abs=0.01)
    assert raw.low > 0.25
    assert spreads["medians, calibrated"]["spread"].value == pytest.approx(0, abs=1e-9)
    assert spreads["medians, calibrated minus raw"]["spread"].high < -0.2


def test_intervals_are_over_questions_not_states() -> None:
    few = [trajectory(f"q{k}", *[state(answerability=0.9 * (k % 2), step=s) for s in range(50)]) for k in range(6)]
    many = [trajectory(f"q{k}", state(answerability=0.9 * (k % 2))) for k in range(300)]
    widths = []
    for each in (few, many):
        share = measure_gate(StateTable(each), "answer", DEFAULT)["holds (share of states)"]
        assert share.value == 0.5
        assert share.low is not None and share.high is not None
        widths.append(share.high - share.low)
    assert widths[0] > 5 * widths[1]


@pytest.mark.parametrize(
    ("gate", "opens", "stays_shut"),
    [
        ("answer", {"answerability": 0.5}, {"answerability": 0.49}),
        ("answer", {"answerability": 0.9, "conflict": 0.49}, {"answerability": 0.9, "conflict": 0.5}),
        ("conflict", {"conflict": 0.5}, {"conflict": 0.49}),
        ("reliability", {"reliability": 0.29}, {"reliability": 0.3}),
        ("flagged", {"flagged": 1}, {"flagged": 0}),
        ("retrieval value", {"retrieval_value": 0.1}, {"retrieval_value": 0.09}),
        ("novelty", {"novelty": 0.19}, {"novelty": 0.2}),
        ("novelty", {"novelty": 0.0, "rounds": 1}, {"novelty": 0.0, "rounds": 0}),
        (
            "abstain",
            {"sufficiency": 0.14, "uncertainty": 0.86, "answerability": 0.34},
            {"sufficiency": 0.14, "uncertainty": 0.85, "answerability": 0.34},
        ),
    ],
)
def test_a_gate_opens_where_the_policy_would(gate: str, opens: dict[str, float], stays_shut: dict[str, float]) -> None:
    both = (state(**opens), state(**stays_shut))  # type: ignore[arg-type]
    assert [GATES[gate].holds(each, DEFAULT) for each in both] == [True, False]


def test_how_often_a_gate_fires_by_dataset_and_over_all() -> None:
    own = [trajectory(f"q{k}", state(conflict=0.6 if k < 3 else 0.1)) for k in range(10)]
    own += [trajectory(f"q{k}", state(conflict=0.1), dataset="e") for k in range(10)]
    result = worked_out(own)
    gates = rows_of(result, "gates", "gate", "dataset")
    assert [gates["conflict", name]["holds"].value for name in ("d", "e", "all")] == [0.3, 0.0, 0.15]
    assert "reliability" in result.numbers["never_reached"] and "conflict" not in result.numbers["never_reached"]
    assert mentions(result.findings[-1], "never reached", "reliability")
    own = [trajectory(f"q{k}", state(flagged=1, branch="correct-flagged" if k == 0 else "stop")) for k in range(4)]
    found = measure_gate(StateTable(own), "flagged", DEFAULT)
    assert (found["holds (share of states)"].value, found["decides (share of states)"].value) == (1.0, 0.25)


def test_states_without_evidence_are_left_out_and_counted() -> None:
    own = [trajectory(f"q{k}", state(retained=0, step=0, retrieval_value=0.59), state()) for k in range(5)]
    result = worked_out(own)
    assert mentions(result.sample, "5 visited states", "5 questions")
    assert mentions(result.notes[0], "5 further states")
    assert "retrieval value" in result.numbers["never_reached"]


def test_one_dataset_has_no_spread_and_one_question_no_number() -> None:
    result = worked_out([trajectory(f"q{k}", state()) for k in range(5)])
    assert mentions(result.findings[0], "One dataset", "spread")
    assert [each.ours is None for each in result.paper_values[:2]] == [True, True]
    result = worked_out([trajectory("q0", state())])
    assert "at least 2 questions" in result.findings[0]
    assert (result.tables, result.draw) == ((), None)
