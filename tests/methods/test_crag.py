from pathlib import Path

import pytest

from beliefrag.methods.crag import Crag
from beliefrag.outcome import Answered, Stopped
from beliefrag.types import Budget
from tests.support.episodes import PlannedRetriever, hits, play, script, verdict
from tests.support.reading import actions, calls, prompts, says

ANSWER = says("answer", "Paris")
REWRITE = says("rewriter", "other words")
GOOD = verdict(0.9, 0.0, 0.1)
MIXED = verdict(0.5, 0.5, 0.5, unhelpful=[2])
BAD = verdict(0.1, 1.0, 1.0, unhelpful=[1])


async def test_evidence_graded_correct_is_answered_from(tmp_path: Path) -> None:
    result = await play(script(tmp_path, GOOD, ANSWER), PlannedRetriever(hits("a", "b")), method=Crag())
    assert isinstance(result.outcome, Answered)
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert "support 0.90 is at least 0.70" in result.reason
    assert calls(result) == {"verifier": 1, "answer": 1}


async def test_incorrect_evidence_goes_altogether_and_the_rewritten_query_is_searched_for(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a", "b"), hits("b", "c"))
    result = await play(script(tmp_path, BAD, REWRITE, ANSWER), retriever, method=Crag())
    assert actions(result) == ["RETRIEVE", "VERIFY", "REWRITE", "RETRIEVE", "STOP"]
    assert result.record()["steps"][1]["dropped"] == ["a", "b"]
    assert retriever.queries == ["Which?", "other words"]
    # b was condemned: it does not come back though it is found again.
    assert [passage.id for passage in result.sources] == ["c"]
    assert calls(result) == {"verifier": 1, "rewriter": 1, "answer": 1}


async def test_of_ambiguous_evidence_only_the_flagged_passages_go(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a", "b"), hits("c"))
    result = await play(script(tmp_path, MIXED, REWRITE, ANSWER), retriever, method=Crag())
    assert result.record()["steps"][1]["dropped"] == ["b"]
    # The rewritten query itself is searched for: no query writer has a say.
    assert retriever.queries == ["Which?", "other words"]
    assert [passage.id for passage in result.sources] == ["a", "c"]
    assert "only in part" in prompts(result, "rewriter")[0]


async def test_with_nothing_to_prune_the_query_is_rewritten_at_once(tmp_path: Path) -> None:
    unflagged = verdict(0.5, 0.5, 0.5)
    retriever = PlannedRetriever(hits("a"), hits("b"))
    result = await play(script(tmp_path, unflagged, REWRITE, GOOD, ANSWER), retriever, method=Crag())
    assert actions(result) == ["RETRIEVE", "REWRITE", "RETRIEVE", "ANSWER"]


async def test_a_search_that_found_nothing_is_made_again_in_other_words(tmp_path: Path) -> None:
    retriever = PlannedRetriever([], hits("b"))
    result = await play(script(tmp_path, REWRITE, GOOD, ANSWER), retriever, method=Crag())
    assert isinstance(result.outcome, Answered)
    assert retriever.queries == ["Which?", "other words"]


async def test_a_grade_that_cannot_be_read_condemns_nothing(tmp_path: Path) -> None:
    garbage = says("verifier", "Rather poor.")
    retriever = PlannedRetriever(hits("a"), hits("b"))
    result = await play(script(tmp_path, garbage, garbage, REWRITE, GOOD, ANSWER), retriever, method=Crag())
    assert [passage.id for passage in result.sources] == ["a", "b"]


async def test_evidence_is_not_graded_when_nothing_can_follow_from_it(tmp_path: Path) -> None:
    model = script(tmp_path, ANSWER)
    result = await play(model, PlannedRetriever(hits("a")), method=Crag(), budget=Budget(rounds=1))
    assert isinstance(result.outcome, Stopped)
    assert calls(result) == {"answer": 1}


def test_thresholds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="incorrect must not be above correct"):
        Crag(correct=0.2, incorrect=0.6)
