"""The trace that the paper prints, step by step, with a scripted model in place of gpt-oss-120b."""

import re
from pathlib import Path

import pytest

from beliefrag.explanation import describe_reason
from beliefrag.policy import PRIOR, ScoreScale, Thresholds
from beliefrag.record import Episode
from tests.support.episodes import PlannedRetriever, hits, play, published_method, script, verdict
from tests.support.messages import mentions
from tests.support.reading import why

QUESTION = "Private Music signed the drummer who was part of which English group?"
FIRST = hits("Private_Music", "Myron_duo", "Zak_Starkey", "Weathermaker_Music", "Oasis_discography")
SECOND = hits("Zak_Starkey", "Drum_kit", "Myron_duo", "Drummer_list", "English_folk")
REWRITTEN = "Private Music signed drummer formerly a member of an English band"
WRITTEN = "Ringo Starr drummer member of which English group?"


@pytest.fixture
async def trace(tmp_path: Path) -> tuple[Episode, PlannedRetriever]:
    retriever = PlannedRetriever(FIRST, SECOND)
    model = script(
        tmp_path,
        verdict(0.30, 0.70, 1.0, unhelpful=[2, 3, 4, 5]),
        {"purpose": "rewriter", "reply": REWRITTEN},
        {"purpose": "query_writer", "reply": WRITTEN},
        verdict(0.30, 0.60, 0.9),
        {"purpose": "answer", "reply": "The Beatles"},
    )
    # A scale that puts the relevance of the first search near the published 0.27.
    # The published correction pays for a rewriter and for the query writer.
    method = published_method(ScoreScale(25.0, 5.0), Thresholds(merge_rewriter=False))
    return await play(model, retriever, question=QUESTION, method=method), retriever


async def test_actions_evidence_and_queries_are_the_published_ones(trace: tuple[Episode, PlannedRetriever]) -> None:
    result, retriever = trace
    assert [step.action for step in result.steps] == ["RETRIEVE", "VERIFY", "REWRITE", "RETRIEVE", "ANSWER"]
    assert (result.outcome, result.answer) == ("answered", "The Beatles")
    assert [len(step.evidence) for step in result.steps] == [5, 1, 1, 4, 4]
    second = [step.search for step in result.steps if step.search][1]
    assert set(second.refused) == {"Zak_Starkey", "Myron_duo"}
    assert second.added == ("Drum_kit", "Drummer_list", "English_folk")
    # The first query is the question; the second is written from the evidence.
    assert retriever.queries == [QUESTION, WRITTEN]
    assert result.steps[2].rewritten == REWRITTEN
    # A correction pays for both the rewriter and the query writer; the first query is free.
    paid = {purpose: usage.calls for purpose, usage in result.usage.by_purpose.items()}
    assert paid == {"verifier": 2, "rewriter": 1, "query_writer": 1, "answer": 1}


async def test_beliefs_and_decisions_are_the_published_ones(trace: tuple[Episode, PlannedRetriever]) -> None:
    result, _ = trace
    first, verify, *_, last = result.steps
    assert (first.belief, first.retrieval_value) == (PRIOR, 0.59)
    assert first.diagnostics is not None
    assert (first.diagnostics.uncertainty, first.diagnostics.gap) == (1.0, 1.0)
    assert verify.branch == "correct-flagged"
    assert verify.dropped == tuple(hit.passage.id for hit in FIRST[1:])
    assert mentions(describe_reason(verify.reason, verify.comparisons), "flagged 4 passages")
    # After the pruning the observation is used again and not paid for again.
    measured = [step.diagnostics for step in result.steps[1:4]]
    assert len({(x.support, x.conflict, x.uncertainty, x.gap) for x in measured if x}) == 1
    assert last.belief is not None and round(last.belief.conflict, 2) == 0.09
    assert last.answerability == pytest.approx(0.53, abs=0.01)
    assert last.branch == "answer"
    assert re.search(r"answerability 0\.5[34] .*at least 0\.50", why(result))
