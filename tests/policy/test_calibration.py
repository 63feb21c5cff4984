import math

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.policy import FittedValue, IsotonicAnswerability, PlattAnswerability, ScheduledValue, ScoreScale
from beliefrag.types import Diagnostics


def test_the_published_answerability_gives_the_value_worked_by_hand() -> None:
    published = load_artifact("published").calibration(ScoreScale(20.0, 8.0)).answerability
    x = Diagnostics(relevance=0.34, support=0.30, conflict=0.7, uncertainty=0.9, gap=0.60, novelty=0.9, cost=0.45)
    score = 0.65330 + 0.08474 * 0.34 + 0.53301 * 0.30 - 0.47780 * 0.9 - 0.54360 * 0.60 + 0.06258 * 0.9 - 0.00441 * 0.45
    assert published.probability(x, 0.5) == pytest.approx(1 / (1 + math.exp(-score)), abs=1e-12)
    assert round(published.probability(x, 0.5), 2) == 0.53


@pytest.mark.parametrize(("rounds", "value"), [(0, 0.59), (1, 0.073), (2, 0.050), (3, 0.050), (7, 0.050)])
def test_without_a_fit_the_value_follows_the_schedule_by_round(rounds: int, value: float) -> None:
    assert ScheduledValue().probability(rounds=rounds, novelty=0.3, sufficiency=0.9) == value


def test_a_fitted_value_is_a_logistic_over_rounds_novelty_and_sufficiency() -> None:
    fitted = FittedValue(intercept=0.4, rounds=-1.0, novelty=0.5, sufficiency=-2.0)
    score = 0.4 - 1.0 * 2 + 0.5 * 0.6 - 2.0 * 0.25
    assert fitted.probability(rounds=2, novelty=0.6, sufficiency=0.25) == pytest.approx(1 / (1 + math.exp(-score)))


X = Diagnostics(0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.5)


@pytest.mark.parametrize("sufficiency", [0.0, 0.02, 0.37, 0.9, 1.0])
def test_platts_form_with_slope_one_leaves_the_raw_score_as_it_is(sufficiency: float) -> None:
    assert PlattAnswerability(0.0, 1.0).probability(X, sufficiency) == pytest.approx(sufficiency, abs=1.1e-6)


def test_platts_form_is_a_line_in_the_log_odds() -> None:
    # logit(0.8) = log 4, so the odds are exp(0.5) * 4 ** 2.
    odds = math.exp(0.5) * 16
    assert PlattAnswerability(0.5, 2.0).probability(X, 0.8) == pytest.approx(odds / (1 + odds))


@pytest.mark.parametrize(
    ("sufficiency", "expected"), [(0.0, 0.1), (0.2, 0.1), (0.3, 0.2), (0.4, 0.3), (0.6, 0.6), (0.8, 0.9), (1.0, 0.9)]
)
def test_the_isotonic_form_is_a_line_between_its_points(sufficiency: float, expected: float) -> None:
    steps = IsotonicAnswerability((0.2, 0.4, 0.8), (0.1, 0.3, 0.9))
    assert steps.probability(X, sufficiency) == pytest.approx(expected)
