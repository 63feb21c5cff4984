"""No-RAG, Static and Iterative: what they do does not depend on what they find."""

from pathlib import Path

import pytest

from beliefrag.methods.iterative import Iterative
from beliefrag.methods.no_rag import NoRag
from beliefrag.methods.static import Static
from beliefrag.types import Budget
from tests.support.episodes import PlannedRetriever, hits, play, script
from tests.support.reading import actions, calls, prompts, says, why

ANSWER = says("answer", "Paris")


async def test_no_rag_never_searches_and_asks_the_shared_answer_prompt_with_no_passages(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"))
    result = await play(script(tmp_path, ANSWER), retriever, method=NoRag())
    assert result.outcome == "answered"
    assert retriever.queries == []
    assert calls(result) == {"answer": 1}
    assert prompts(result, "answer")[0].startswith("(no passages)\n\nQuestion: Which?")


async def test_static_searches_once_for_the_question_and_answers_from_the_top_k(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits(*"abcdefg"))
    result = await play(script(tmp_path, ANSWER), retriever, method=Static())
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert retriever.queries == ["Which?"]
    assert list(result.sources) == list("abcde")
    assert calls(result) == {"answer": 1}


async def test_iterative_makes_all_rounds_with_the_query_writer_between_them(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"), hits("b"), hits("c"))
    model = script(tmp_path, says("query_writer", "second"), says("query_writer", "third"), ANSWER)
    result = await play(model, retriever, method=Iterative())
    assert actions(result) == ["RETRIEVE", "RETRIEVE", "RETRIEVE", "ANSWER"]
    assert retriever.queries == ["Which?", "second", "third"]
    assert list(result.sources) == ["a", "b", "c"]
    assert calls(result) == {"query_writer": 2, "answer": 1}
    # Each query is written in view of what was found before it.
    assert "alphab" in prompts(result, "query_writer")[1]


async def test_iterative_makes_no_search_twice_and_pays_for_no_other_call(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a", "b"), hits("c"), hits("d"))
    result = await play(
        script(tmp_path, says("query_writer", "More", repeat=True), ANSWER), retriever, method=Iterative()
    )
    assert retriever.queries == ["Which?", "More", "Which? a"]
    assert calls(result) == {"query_writer": 2, "answer": 1}
    repeated = [event.repairs.get("repeated_queries", 0) for event in result.calls]
    assert repeated == [0, 1, 0]


@pytest.mark.parametrize(
    ("written", "rewritten", "found", "queries"),
    [
        ("SUFFICIENT", ("other words", "still others"), "abc", ["Which?", "other words", "still others"]),
        ("more", ("other words",), ("which", "which", "b"), ["Which?", "more", "other words"]),
        # A query that was searched for at any time is not taken.
        ("SUFFICIENT", ("second", "WHICH?", "third"), "abc", ["Which?", "second", "third"]),
    ],
)
async def test_iterative_rewrites_the_last_query_where_the_writer_has_no_new_one(
    tmp_path: Path, written: str, rewritten: tuple[str, ...], found: str, queries: list[str]
) -> None:
    retriever = PlannedRetriever(*(hits(name) for name in found))
    rewriter = [says("rewriter", text) for text in rewritten]
    model = script(tmp_path, says("query_writer", written, repeat=True), *rewriter, ANSWER)
    result = await play(model, retriever, method=Iterative())
    assert result.outcome == "answered"
    assert retriever.queries == queries


async def test_iterative_that_runs_out_of_actions_stops_and_says_so(tmp_path: Path) -> None:
    model = script(tmp_path, says("query_writer", "second"), ANSWER)
    result = await play(model, PlannedRetriever(hits("a")), method=Iterative(), budget=Budget(actions=3))
    assert result.outcome == "stopped"
    assert actions(result) == ["RETRIEVE", "RETRIEVE", "STOP"]
    assert "within the budget" in why(result)
