"""What it takes to set off the reliability gate: the bounds that docs/results/score_scale.md states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.policy import PRIOR, Situation, Thresholds, decide, update
from beliefrag.types import Action, Diagnostics

ones = st.floats(0.0, 1.0)


def gate_fires(*relevances: float, support: float = 0.0, conflict: float = 0.0) -> bool:
    """Whether the gate starts a correction after looks at evidence of these relevances."""
    belief = PRIOR
    for relevance in relevances:
        seen = Diagnostics(relevance, support, conflict, uncertainty=1.0, gap=1.0, novelty=1.0, cost=0.1)
        belief = update(belief, seen)
    situation = Situation(
        belief=belief,
        answerability=0.1,
        retrieval_value=0.5,
        novelty=1.0,
        rounds=1,
        flagged=0,
        actions=(Action.RETRIEVE,),
        legal=tuple(Action),
        correction_fits=True,
    )
    # The belief in conflict has a gate of its own, which would come first.
    return decide(situation, Thresholds(correct_conflict=False)).branch == "correct-unreliable"


@given(relevance=ones, support=ones)
def test_without_conflict_the_gate_cannot_fire_at_the_first_look(relevance: float, support: float) -> None:
    assert not gate_fires(relevance, support=support)


@pytest.mark.parametrize(
    ("looks", "bound"),
    # 1 - 0.5 ** looks times (-1.4 + 2.8 R) has to lie below logit(0.3) = -0.8473.
    [(2, (1.4 - 0.8473 / 0.75) / 2.8), (3, (1.4 - 0.8473 / 0.875) / 2.8), (40, (1.4 - 0.8473) / 2.8)],
)
def test_without_conflict_the_gate_needs_a_relevance_near_0_at_every_look(looks: int, bound: float) -> None:
    assert bound == pytest.approx({2: 0.10, 3: 0.15, 40: 0.20}[looks], abs=0.005)
    assert gate_fires(*[bound - 0.001] * looks)
    assert not gate_fires(*[bound + 0.001] * looks)
    assert not gate_fires(*[bound - 0.001] * looks, support=0.1)


def test_full_conflict_sets_the_gate_off_at_the_first_look_up_to_a_relevance_of_three_quarters() -> None:
    assert gate_fires(0.75, conflict=1.0)
    assert not gate_fires(0.76, conflict=1.0)
