import pytest

from beliefrag.policy import Spent, correction_fits, legal_actions
from beliefrag.types import TERMINAL, Action, Budget

BUDGET = Budget()


SEARCHED = {"has_evidence": True, "has_query": True}
NO_SEARCH = {Action.VERIFY, *TERMINAL}
NO_REWRITE = set(Action) - {Action.REWRITE}


def legal(spent: Spent, **state: bool) -> set[Action]:
    return set(legal_actions(BUDGET, spent, **(SEARCHED | state)))


@pytest.mark.parametrize(
    ("spent", "state", "expected"),
    [
        # At the start there is nothing to verify and no query to rewrite.
        (Spent(), {"has_evidence": False, "has_query": False}, {Action.RETRIEVE, *TERMINAL}),
        (Spent(rounds=1, actions=1, tokens=900), {}, set(Action)),
        (Spent(rounds=1, actions=5), {}, TERMINAL),
        # A rewrite needs room for the search after it and for the end.
        (Spent(rounds=1, actions=3), {}, set(Action)),
        (Spent(rounds=1, actions=4), {}, NO_REWRITE),
        (Spent(rounds=3, actions=3), {}, NO_SEARCH),
        (Spent(rounds=1, actions=1, tokens=12_000), {}, NO_SEARCH),
        (Spent(rounds=1, actions=1), {"nothing_missing": True}, TERMINAL),
    ],
)
def test_an_action_is_legal_where_it_makes_sense_and_fits(
    spent: Spent, state: dict[str, bool], expected: set[Action]
) -> None:
    assert legal(spent, **state) == expected


def test_a_rewritten_query_is_searched_for_even_where_the_rewriter_spent_the_last_tokens() -> None:
    paid = {"has_evidence": False, "has_rewritten": True}
    assert legal(Spent(rounds=1, actions=2, tokens=12_000), **paid) == {Action.RETRIEVE, *TERMINAL}
    # No other limit is loosened.
    assert legal(Spent(rounds=3, actions=2, tokens=12_000), **paid) == TERMINAL
    assert legal(Spent(rounds=1, actions=5, tokens=12_000), **paid) == TERMINAL
    assert legal(Spent(rounds=1, actions=2, tokens=12_000), **paid, nothing_missing=True) == TERMINAL


@pytest.mark.parametrize(
    ("spent", "fits"),
    [
        (Spent(rounds=1, actions=1), True),
        (Spent(rounds=1, actions=2), True),
        (Spent(rounds=1, actions=3), False),
        (Spent(rounds=3, actions=1), False),
        (Spent(rounds=1, actions=1, tokens=12_000), False),
    ],
)
def test_a_correction_starts_only_when_its_whole_chain_and_an_ending_fit(spent: Spent, fits: bool) -> None:
    assert correction_fits(BUDGET, spent) is fits


def test_a_budget_that_allows_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="actions"):
        Budget(actions=0)
