import math
from dataclasses import asdict, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.policy import PRIOR, update
from beliefrag.types import Belief, Diagnostics

ones = st.floats(0.0, 1.0)
diagnostics = st.builds(Diagnostics, ones, ones, ones, ones, ones, ones, ones)

# R, S, C, U, G, N, K chosen so that the sums are easy to check on paper.
X = Diagnostics(relevance=0.5, support=1.0, conflict=0.5, uncertainty=0.2, gap=0.1, novelty=0.5, cost=0.3)


def test_the_prior_is_the_published_one() -> None:
    assert Belief(0.35, 0.50, 0.05, 0.70, 0.90, 0.00) == PRIOR


@pytest.mark.parametrize(
    ("dimension", "by_hand"),
    [
        # logit(b0) times (1 - lambda) plus lambda times the score by the published weights.
        (
            "sufficiency",
            0.4 * math.log(0.35 / 0.65) + 0.6 * (-1.6 + 2.6 * 1.0 + 1.2 * 0.5 - 2.2 * 0.1 - 0.2 - 0.6 * 0.5),
        ),
        ("reliability", 0.5 * math.log(0.5 / 0.5) + 0.5 * (-1.4 + 2.8 * 0.5 + 0.9 * 1.0 - 2.4 * 0.5)),
        ("conflict", 0.4 * math.log(0.05 / 0.95) + 0.6 * (-2.2 + 4.4 * 0.5 - 0.5 * 1.0)),
        ("uncertainty", 0.4 * math.log(0.7 / 0.3) + 0.6 * (-1.2 + 2.6 * 0.2 + 1.3 * 0.1 - 1.6 * 1.0 + 0.7 * 0.5)),
        ("gap", 0.3 * math.log(0.9 / 0.1) + 0.7 * (-1.0 + 3.0 * 0.1 - 1.4 * 1.0 + 0.4 * 0.5)),
    ],
)
def test_an_update_blends_in_logit_space(dimension: str, by_hand: float) -> None:
    assert getattr(update(PRIOR, X), dimension) == pytest.approx(1 / (1 + math.exp(-by_hand)), abs=1e-12)


def test_cost_becomes_what_was_observed() -> None:
    assert update(PRIOR, X).cost == 0.3


def test_conflict_reaches_the_published_value_after_four_steps_without_any() -> None:
    belief = PRIOR
    x = Diagnostics(relevance=0.3, support=0.30, conflict=0.0, uncertainty=0.9, gap=0.7, novelty=1.0, cost=0.2)
    for _ in range(4):
        belief = update(belief, x)
    assert round(belief.conflict, 2) == 0.09


@given(st.lists(diagnostics, min_size=1, max_size=30))
def test_beliefs_stay_strictly_between_zero_and_one(observations: list[Diagnostics]) -> None:
    belief = PRIOR
    for x in observations:
        belief = update(belief, x)
        for name, value in asdict(belief).items():
            if name == "cost":
                assert value == x.cost
            else:
                assert 0.0 < value < 1.0


@given(diagnostics, st.sampled_from(["support", "gap", "uncertainty", "conflict"]), st.floats(0.0, 1.0))
def test_sufficiency_moves_with_support_and_against_the_rest(x: Diagnostics, name: str, other: float) -> None:
    values = {f.name: getattr(x, f.name) for f in fields(x)}
    low, high = sorted((values[name], other))
    before = update(PRIOR, Diagnostics(**(values | {name: low}))).sufficiency
    after = update(PRIOR, Diagnostics(**(values | {name: high}))).sufficiency
    assert after >= before if name == "support" else after <= before
