import pytest

from beliefrag.policy import Spent, correction_fits, legal_actions
from beliefrag.types import TERMINAL, Action, Budget

BUDGET = Budget()


def legal(spent: Spent, *, evidence: bool = True, query: bool = True, missing: bool = True) -> set[Action]:
    return set(legal_actions(BUDGET, spent, has_evidence=evidence, has_query=query, nothing_missing=not missing))


def test_at_the_start_one_can_retrieve_or_end_but_not_verify_or_rewrite() -> None:
    assert legal(Spent(), evidence=False, query=False) == {Action.RETRIEVE, *TERMINAL}


def test_with_evidence_and_room_everything_is_legal() -> None:
    assert legal(Spent(rounds=1, actions=1, tokens=900)) == set(Action)


def test_with_one_action_left_only_terminal_actions_are_legal() -> None:
    assert legal(Spent(rounds=1, actions=5)) == TERMINAL


def test_a_rewrite_needs_room_for_the_search_after_it_and_for_the_end() -> None:
    assert Action.REWRITE in legal(Spent(rounds=1, actions=3))
    assert Action.REWRITE not in legal(Spent(rounds=1, actions=4))


@pytest.mark.parametrize("spent", [Spent(rounds=3, actions=3), Spent(rounds=1, actions=1, tokens=12_000)])
def test_without_rounds_or_tokens_nothing_is_searched_for(spent: Spent) -> None:
    assert legal(spent) == {Action.VERIFY, *TERMINAL}


def test_a_rewritten_query_is_searched_for_even_where_the_rewriter_spent_the_last_tokens() -> None:
    def with_query(spent: Spent, *, missing: bool = True) -> set[Action]:
        return set(
            legal_actions(
                BUDGET, spent, has_evidence=False, has_query=True, nothing_missing=not missing, has_rewritten=True
            )
        )

    assert with_query(Spent(rounds=1, actions=2, tokens=12_000)) == {Action.RETRIEVE, *TERMINAL}
    # No other limit is loosened.
    assert with_query(Spent(rounds=3, actions=2, tokens=12_000)) == TERMINAL
    assert with_query(Spent(rounds=1, actions=5, tokens=12_000)) == TERMINAL
    assert with_query(Spent(rounds=1, actions=2, tokens=12_000), missing=False) == TERMINAL


def test_when_nothing_is_missing_only_terminal_actions_are_legal() -> None:
    assert legal(Spent(rounds=1, actions=1), missing=False) == TERMINAL


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
