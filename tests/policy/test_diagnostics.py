import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.policy import NOTHING_OBSERVED, ScoreScale, cost, measure, novelty, relevance
from beliefrag.types import Diagnostics, Observation, Passage


def passage(text: str) -> Passage:
    return Passage(text, "", text)


def test_relevance_is_the_softmax_weighted_mean_of_calibrated_scores() -> None:
    # By hand, with mu 10 and tau 5: z = 10 -> 0.5, z = 15 -> sigmoid(1) = 0.7310586.
    # Weights e^(0.5/0.2) = 12.182494 and e^(0.7310586/0.2) = 38.675...; R = (w1 0.5 + w2 0.7310586)/(w1 + w2).
    w1, w2 = math.exp(2.5), math.exp(0.7310585786300049 / 0.2)
    by_hand = (w1 * 0.5 + w2 * 0.7310585786300049) / (w1 + w2)
    assert by_hand == pytest.approx(0.67569, abs=1e-4)
    assert relevance([10.0, 15.0], ScoreScale(10.0, 5.0), k=5) == pytest.approx(by_hand, abs=1e-12)


def test_relevance_looks_at_the_k_best_scores_only() -> None:
    scale = ScoreScale(10.0, 5.0)
    assert relevance([1.0, 15.0, 10.0], scale, k=2) == relevance([10.0, 15.0], scale, k=2)
    assert relevance([], scale, k=2) == 0.0


def test_relevance_is_one_half_for_any_evidence_when_the_scores_have_no_say() -> None:
    assert relevance([0.7, 0.1], None, k=5) == relevance([1e6], None, k=5) == 0.5
    assert relevance([], None, k=5) == 0.0


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_score_scale_must_be_a_positive_number(scale: float) -> None:
    with pytest.raises(ValueError, match="scale above 0"):
        ScoreScale(10.0, scale)


def test_novelty_is_one_minus_the_mean_of_the_largest_jaccard_similarities() -> None:
    # {a b c} against {a b d}: 2 shared of 4 = 0.5; {x y} against it: 0. N = 1 - (0.5 + 0) / 2.
    assert novelty([passage("a b c"), passage("x y")], [passage("u v"), passage("A b d")]) == pytest.approx(0.75)


def test_novelty_is_one_with_nothing_before_and_zero_with_nothing_new() -> None:
    assert novelty([passage("a")], []) == 1.0
    assert novelty([], [passage("a")]) == 0.0
    assert novelty([], []) == 0.0


def test_cost_is_the_share_of_the_budget_and_stops_at_one() -> None:
    assert cost(2_520, 12_000) == pytest.approx(0.21)
    assert cost(20_000, 12_000) == 1.0


def test_with_no_evidence_uncertainty_and_gap_are_one_and_the_rest_zero() -> None:
    x = measure(NOTHING_OBSERVED, relevance=0.0, novelty=1.0, cost=0.0)
    assert x == Diagnostics(0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0)


def test_the_vector_runs_in_the_order_of_the_paper() -> None:
    observation = Observation(support=0.2, conflict=0.3, uncertainty=0.4, gap=0.5)
    assert measure(observation, relevance=0.1, novelty=0.6, cost=0.7).vector() == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


scores = st.lists(st.floats(-1e6, 1e6), max_size=20)


@given(scores, st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.integers(1, 10))
def test_relevance_stays_between_zero_and_one(values: list[float], location: float, scale: float, k: int) -> None:
    assert 0.0 <= relevance(values, ScoreScale(location, scale), k) <= 1.0


@given(st.lists(st.text(max_size=30), max_size=6), st.lists(st.text(max_size=30), max_size=6))
def test_novelty_stays_between_zero_and_one(new: list[str], before: list[str]) -> None:
    value = novelty([passage(text) for text in new], [passage(text) for text in before])
    assert -1e-9 <= value <= 1.0
