from pathlib import Path

import pytest

from beliefrag.methods.adaptive_rag import AdaptiveRag
from beliefrag.types import Budget
from tests.support.episodes import PlannedRetriever, hits, play, script
from tests.support.reading import actions, calls, says

ANSWER = says("answer", "Paris")
WRITER = says("query_writer", "next", repeat=True)


@pytest.mark.parametrize(
    ("reply", "searches"), [("A", 0), ("B", 1), ("C", 3), ("Class: C", 3), ("**b**", 1), ("A: nothing", 0)]
)
async def test_the_predicted_complexity_sets_the_number_of_searches(tmp_path: Path, reply: str, searches: int) -> None:
    result = await play(
        script(tmp_path, says("router", reply), WRITER, ANSWER), PlannedRetriever(hits("a")), method=AdaptiveRag()
    )
    assert actions(result) == ["RETRIEVE"] * searches + ["ANSWER"]
    assert calls(result)["router"] == 1
    assert calls(result).get("query_writer", 0) == max(0, searches - 1)


async def test_a_reply_that_names_no_class_twice_means_one_search(tmp_path: Path) -> None:
    # "A" is an article here: it must not be taken for the class of trivial questions.
    vague = says("router", "A search would help.", repeat=True)
    result = await play(script(tmp_path, vague, ANSWER), PlannedRetriever(hits("a")), method=AdaptiveRag())
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert calls(result) == {"router": 2, "answer": 1}


async def test_the_router_is_not_asked_where_all_routes_are_one(tmp_path: Path) -> None:
    result = await play(
        script(tmp_path, ANSWER), PlannedRetriever(hits("a")), method=AdaptiveRag(), budget=Budget(rounds=0)
    )
    assert calls(result) == {"answer": 1}
