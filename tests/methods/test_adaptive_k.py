from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.methods.adaptive_k import AdaptiveK
from beliefrag.types import Budget, Hit, Passage
from tests.support.episodes import play, script
from tests.support.reading import actions, calls, says


class Scored:
    """Hits with the given scores, as deep as is asked for."""

    def __init__(self, *scores: float) -> None:
        self.scores = scores
        self.depths: list[int] = []

    def search(self, query: str, k: int) -> Sequence[Hit]:
        self.depths.append(k)
        return [Hit(Passage(f"p{i}", "", f"text {i}"), score) for i, score in enumerate(self.scores[:k])]


TAIL = [30.0, 28.0, *[27.0 - i / 100 for i in range(17)], 1.0]


@pytest.mark.parametrize(
    ("scores", "kept", "options"),
    [
        ([30, 29, 28, 12, 11], 3, {"buffer": 0, "tail": 0.0}),
        ([30, 10, 9, 8], 1, {"buffer": 0, "tail": 0.0}),
        ([9, 6, 3, 0], 1, {"buffer": 0, "tail": 0.0}),  # equal drops: the first
        ([7, 7, 7], 3, {"buffer": 0, "tail": 0.0}),  # no drop, no cut
        ([7], 1, {"buffer": 0, "tail": 0.0}),
        ([], 0, {"buffer": 0, "tail": 0.0}),
        ([30, 10, 9, 8], 2, {"buffer": 1}),
        ([30, 10, 9, 8], 4, {"buffer": 9}),
        ([30.0, *[10.0 - i / 100 for i in range(40)]], 6, {}),
        (TAIL, 19, {"buffer": 0, "tail": 0.0}),
        (TAIL, 1, {"buffer": 0}),  # a drop in the last tenth is no cut
    ],
)
def test_the_cut_is_at_the_largest_drop(scores: list[float], kept: int, options: dict[str, Any]) -> None:
    assert AdaptiveK(**options).keep(scores) == kept


@given(st.lists(st.floats(-50, 50), min_size=1), st.integers(0, 5))
def test_a_cut_keeps_at_least_one_and_at_most_all(scores: list[float], buffer: int) -> None:
    assert 1 <= AdaptiveK(buffer=buffer).keep(scores) <= len(scores)


async def test_the_scores_of_a_deep_list_say_how_many_passages_are_kept(tmp_path: Path) -> None:
    retriever = Scored(*[30.0 - i for i in range(7)], *[10.0 - i / 10 for i in range(60)])
    result = await play(script(tmp_path, says("answer", "Paris")), retriever, method=AdaptiveK(buffer=0))
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert retriever.depths == [50]
    assert len(result.sources) == 7  # more than top-k
    assert calls(result) == {"answer": 1}


async def test_the_record_holds_the_scores_that_the_rule_saw(tmp_path: Path) -> None:
    result = await play(script(tmp_path, says("answer", "x")), Scored(9.0, 8.0, 1.0), method=AdaptiveK(buffer=0))
    retrieved = next(step.search for step in result.steps if step.search)
    assert retrieved.candidates == (9.0, 8.0, 1.0)
    assert [score for _, score in retrieved.hits] == [9.0, 8.0]


async def test_no_more_is_kept_than_the_answer_prompt_shows(tmp_path: Path) -> None:
    budget = Budget(answer_passages=4)
    result = await play(script(tmp_path, says("answer", "x")), Scored(*[5.0] * 20), method=AdaptiveK(), budget=budget)
    assert len(result.steps[0].evidence) == 4
