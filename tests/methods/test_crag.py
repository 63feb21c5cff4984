from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beliefrag.methods.crag import Crag
from beliefrag.types import Budget, Hit, Passage
from tests.support.episodes import PlannedRetriever, hits, play, script
from tests.support.messages import mentions
from tests.support.reading import actions, calls, prompts, says, why

ANSWER = says("answer", "Paris")
CORRECTED = says("rewriter", "other words")
CRAG = Crag(correct=0.7, incorrect=0.3)


def grades(*values: float) -> dict[str, Any]:
    return says("grader", {"grades": list(values)})


def helps(passage: str, probability: float) -> dict[str, Any]:
    """Return the odds of yes for one passage."""
    return says("grader", "yes", match=f"alpha{passage}", logprobs={"yes": probability, "no": 1 - probability})


async def test_one_good_passage_makes_the_evidence_correct(tmp_path: Path) -> None:
    result = await play(script(tmp_path, grades(0.1, 0.9), ANSWER), PlannedRetriever(hits("a", "b")), method=CRAG)
    assert result.outcome == "answered"
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert mentions(why(result), "grade 0.90", "is at least 0.70")
    assert calls(result) == {"grader": 1, "answer": 1}


async def test_incorrect_evidence_is_not_lost_when_the_same_collection_is_searched_again(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a", "b"), hits("b", "c"))
    result = await play(script(tmp_path, grades(0.1, 0.2), CORRECTED, grades(0.9), ANSWER), retriever, method=CRAG)
    assert actions(result) == ["RETRIEVE", "REWRITE", "RETRIEVE", "ANSWER"]
    assert retriever.queries == ["Which?", "other words"]
    assert list(result.sources) == ["a", "b", "c"]
    # The answer is read from what is not poor.
    assert "alphac" in prompts(result, "answer")[0]
    assert "alphaa" not in prompts(result, "answer")[0]


async def test_of_ambiguous_evidence_the_poor_passages_go_and_the_query_knows_the_others(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a", "b"), hits("c"))
    result = await play(script(tmp_path, grades(0.5, 0.1), CORRECTED, grades(0.8), ANSWER), retriever, method=CRAG)
    assert actions(result) == ["RETRIEVE", "VERIFY", "REWRITE", "RETRIEVE", "STOP"]
    assert result.steps[1].dropped == ("b",)
    assert list(result.sources) == ["a", "c"]
    written = prompts(result, "rewriter")[0]
    assert "only in part" in written
    assert "alphaa" in written and "alphab" not in written


@pytest.mark.parametrize(
    ("lines", "used"),
    [
        # The third passage could not change what follows: it is not paid for.
        ((helps("a", 0.2), helps("b", 0.95)), {"grader": 2, "answer": 1}),
        # A passage that is found again is not graded again.
        (
            (helps("a", 0.2), helps("b", 0.1), helps("c", 0.2), CORRECTED, helps("d", 0.9)),
            {"grader": 4, "rewriter": 1, "answer": 1},
        ),
    ],
)
async def test_each_passage_is_graded_once_by_its_probability_and_only_until_one_is_correct(
    tmp_path: Path, lines: tuple[dict[str, Any], ...], used: dict[str, int]
) -> None:
    retriever = PlannedRetriever(hits("a", "b", "c"), hits("b", "d"))
    result = await play(script(tmp_path, *lines, ANSWER), retriever, method=CRAG, verifier="probability")
    assert (result.outcome, calls(result)) == ("answered", used)


@pytest.mark.parametrize(
    ("found", "lines", "queries", "budget", "reason"),
    [
        ([], (CORRECTED, grades(0.9)), ["Which?", "other words"], Budget(), "is at least 0.70"),
        (hits("a"), (grades(0.5), says("rewriter", "SUFFICIENT")), ["Which?"], Budget(), "nothing left to search"),
        # Nothing is graded when nothing can follow from it.
        (hits("a"), (), ["Which?"], Budget(rounds=1), "within the budget"),
    ],
)
async def test_a_search_is_made_again_in_other_words_where_that_can_help(
    tmp_path: Path, found: list[Hit], lines: tuple[dict[str, Any], ...], queries: list[str], budget: Budget, reason: str
) -> None:
    retriever = PlannedRetriever(found, hits("b"))
    result = await play(script(tmp_path, *lines, ANSWER), retriever, method=CRAG, budget=budget)
    assert (result.answer, retriever.queries) == ("Paris", queries)
    assert calls(result).get("grader", 0) == sum(line["purpose"] == "grader" for line in lines)
    assert mentions(why(result), reason)


@pytest.mark.parametrize("garbage", ["Rather poor.", '{"grades": [0.5, 0.5]}', '{"grades": ["high"]}'])
async def test_a_grade_that_cannot_be_read_condemns_nothing(tmp_path: Path, garbage: str) -> None:
    unread = says("grader", garbage)
    retriever = PlannedRetriever(hits("a"), hits("b"))
    result = await play(script(tmp_path, unread, unread, CORRECTED, grades(0.9, 0.9), ANSWER), retriever, method=CRAG)
    assert list(result.sources) == ["a", "b"]


FILLER = [f"The weather of month {number} was mild." for number in range(12)]
PORTRAIT = " ".join([*FILLER[:6], "The portrait was painted by Anna Vane.", *FILLER[6:]])
VANE = " ".join(["Rain fell in Torsby.", *FILLER, "Anna Vane was born in Torsby."])
LONG = [Hit(Passage("p", "Portrait", PORTRAIT), 9.0), Hit(Passage("v", "Anna Vane", VANE), 8.0)]
ASKED = "Where was the painter who painted the portrait born?"


async def test_the_answer_prompt_shows_the_best_strips_and_not_whole_passages(tmp_path: Path) -> None:
    model = script(tmp_path, grades(0.9, 0.9), says("answer", "Torsby"))
    result = await play(model, PlannedRetriever(LONG), question=ASKED, method=CRAG)
    (shown,) = prompts(result, "answer")
    assert "painted by Anna Vane." in shown and "born in Torsby." in shown
    assert sum(shown.count(filler) for filler in FILLER) <= CRAG.strips - 2
    # The grader sees whole passages, and so do the sources.
    assert all(filler in prompts(result, "grader")[0] for filler in FILLER)
    assert result.read_passages == tuple(hit.passage for hit in LONG)


async def test_with_packing_trace_and_citations_have_the_sentences_that_the_answer_prompt_showed(
    tmp_path: Path,
) -> None:
    model = script(tmp_path, grades(0.9, 0.9), says("answer", "Torsby"))
    result = await play(model, PlannedRetriever(LONG), question=ASKED, method=replace(CRAG, strips=4), pack=30)
    (shown,) = prompts(result, "answer")
    assert result.outcome == "answered"
    # A sentence that the model did not see has the answer too; what is cited is the one that it saw.
    assert "Rain fell" not in shown
    assert "Anna Vane was born in Torsby." in [citation.quote for citation in result.citations]
    assert all(citation.quote in shown for citation in result.citations)
    packed = result.steps[-1]
    whole = {hit.passage.id: hit.passage.text for hit in LONG}
    parts = [whole[each.passage_id][start:end] for each in packed.shown for start, end in each.spans]
    assert any("painted by Anna Vane." in part for part in parts)
    assert any("born in Torsby." in part for part in parts)
    assert all(part in shown for part in parts)
