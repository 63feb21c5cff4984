"""What corrections do to the evidence is counted step by step, and so is who repeats a search."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from beliefrag.types import Action
from benchmarks.correction_steps import count_repeats, follow_corrections

GOLD = {("set", "q1"): frozenset({"a", "b"}), ("set", "q2"): frozenset({"a", "b"})}


def step(action: Action, evidence: str, query: str | None = None, branch: str = "") -> Any:
    search = None
    if action is Action.RETRIEVE:
        search = SimpleNamespace(query=query, was_made=True)
    return SimpleNamespace(action=action, evidence=tuple(evidence), search=search, branch=branch)


def episode(name: str, *steps: Any, repairs: dict[str, int] | None = None) -> Any:
    calls = (SimpleNamespace(repairs=repairs or {}),)
    return SimpleNamespace(key=SimpleNamespace(dataset="set", question_id=name), steps=steps, calls=calls)


def test_recall_is_followed_through_the_correction_and_beside_iterative_on_the_same_questions() -> None:
    corrected = episode(
        "q1",
        step(Action.RETRIEVE, "ax"),
        step(Action.VERIFY, "x"),
        step(Action.REWRITE, "x"),
        step(Action.RETRIEVE, "xb", "other words"),
        step(Action.STOP, "xb"),
    )
    answered = episode("q2", step(Action.RETRIEVE, "ab"), step(Action.ANSWER, "ab"))
    searches = [step(Action.RETRIEVE, "a"), step(Action.RETRIEVE, "ab", "b"), step(Action.RETRIEVE, "ab", "c")]
    iterative = [episode(name, *searches, step(Action.ANSWER, "ab")) for name in ("q1", "q2")]
    assert follow_corrections([corrected, answered], iterative, GOLD) == {
        "n": 1,
        "first search, dropping, second search": [0.5, 0.0, 0.5],
        "iterative, three searches": {"n": 1, "recall": [0.5, 1.0, 1.0]},
    }


@pytest.mark.parametrize(
    ("queries", "repeated"), [([None, "Ada Holm", "ada  holm"], 1), ([None, "Ada", "Holm"], 0), ([None, None], 1)]
)
def test_a_search_is_repeated_if_its_words_are_those_of_an_earlier_one(
    queries: list[str | None], repeated: int
) -> None:
    searched = episode("q1", *(step(Action.RETRIEVE, "a", query) for query in queries))
    assert count_repeats([searched])["with a repeated search"] == repeated


def test_searches_that_were_replaced_are_counted_by_episode() -> None:
    search = step(Action.RETRIEVE, "a")
    episodes = [episode("q1", search, repairs={"repeated_queries": 2}), episode("q2", search, repairs={"repaired": 1})]
    assert count_repeats(episodes) == {
        "episodes": 2,
        "with a repeated search": 0,
        "with a repeated search that was replaced": 1,
    }
