"""Events and outcomes in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from beliefrag.outcome import Abstained, Stopped

from beliefrag import events
from beliefrag.cli.episode_words import describe_effect, describe_wait, summary_rows
from beliefrag.policy.evidence import Mutation
from beliefrag.types import Hit, Passage, Usage
from tests.support.messages import mentions

TITLES = {"a": "Fram", "b": "Gjøa", "c": ""}


def retrieved(**fields: Any) -> events.Retrieved:
    found = events.Retrieved(
        step=0,
        at=0.0,
        query="q",
        hits=(Hit(Passage("a", "Fram", ""), 1.0),),
        added=(),
        known=(),
        refused=(),
        novelty=1.0,
        mutations=(),
        evidence=(),
    )
    return replace(found, **fields)


def words(event: events.Event) -> list[str]:
    return [f"{row.heading} {', '.join(row.values)}" for row in describe_effect(event, TITLES)]


def test_a_search_is_told_by_what_came_of_it() -> None:
    query, found = words(retrieved(added=("a", "b", "c"), known=("d",), refused=("e", "f")))
    assert query == "query q"
    assert mentions(found, "found 3 new (Fram; Gjøa; c)", "1 known", "2 dropped")
    assert words(retrieved(hits=())) == ["query q", "found nothing"]
    (said,) = words(retrieved(query=None, hits=()))
    assert said.startswith("query none: ")


def test_a_corrected_query_is_told_as_it_will_be_searched_and_none_in_words() -> None:
    changed = events.Rewritten(step=1, at=0.0, before="q", after="other words", reason="weak", evidence=())
    assert words(changed) == ["query other words"]
    (said,) = words(replace(changed, after="SUFFICIENT"))
    assert said.startswith("query none: ")


def test_a_pruning_is_told_by_what_went_and_what_stayed() -> None:
    gone = (Mutation("drop", "a", 1, "weak"), Mutation("drop", "b", 1, "weak"))
    pruned = events.Pruned(step=1, at=0.0, mutations=gone, evidence=("c",))
    (said,) = words(pruned)
    assert mentions(said, "dropped 2 (Fram; Gjøa)", "1 kept")
    assert words(events.Pruned(step=1, at=0.0, mutations=(), evidence=("c",))) == ["dropped none, 1 kept"]


def test_waiting_is_named_also_for_purposes_of_other_methods() -> None:
    assert mentions(describe_wait("answer"), "model", "answer")
    assert mentions(describe_wait("search_dialogue"), "model", "search dialogue")


def test_passages_of_one_document_are_one_source() -> None:
    sources = (
        Passage("a1", "Fram", "", "ships.md"),
        Passage("b", "", "", "b.md"),
        Passage("a2", "Fram", "", "ships.md"),
    )
    ended = Stopped(reason="r", answerability=0.314, belief=None, sources=sources, usage=Usage(), answer="x")
    rows = {row.heading: row.values for row in summary_rows(ended, [])}
    assert rows["read"] == ("Fram (ships.md), 2 passages", "b (b.md)")
    assert rows["confidence"] == ("31%",)
    assert rows["outcome"][0].startswith("stopped: the best answer")


def test_the_cost_counts_what_was_paid_retried_and_recorded() -> None:
    usage = Usage(calls=3, tokens_in=1200, tokens_out=34, cached_calls=2, retries=1, searches=1)
    ended = Abstained(reason="r", answerability=None, belief=None, sources=(), usage=usage)
    rows = {
        row.heading: row.values[0] for row in summary_rows(ended, [events.CallStarted(step=0, at=4.26, purpose="p")])
    }
    assert mentions(rows["cost"], "1,234 tokens", "1,200 in", "34 out", "3 calls, 2 of", "recorded earlier")
    assert mentions(rows["cost"], "recorded earlier", "1 retry", "1 search", "4.3 s")
    assert rows["answer"] == "none"
    assert rows["confidence"] == "unknown"
    assert rows["read"] == "nothing"


def test_replies_that_had_to_be_mended_are_reported() -> None:
    call = events.CallFinished(
        step=0,
        at=0.0,
        purpose="verifier",
        messages=(),
        reply="",
        tokens_in=1,
        tokens_out=1,
        counted_by="server",
        seconds=0.0,
        cached=False,
        retries=0,
        repairs={"clamped": 2},
    )
    ended = Abstained(reason="r", answerability=None, belief=None, sources=(), usage=Usage())
    assert "mended" not in {row.heading for row in summary_rows(ended, [])}
    rows = {row.heading: row.values[0] for row in summary_rows(ended, [call, call])}
    assert mentions(rows["mended"], "4 scores")
