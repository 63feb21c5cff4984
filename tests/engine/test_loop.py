import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beliefrag.engine import loop
from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.engine.loop import Harness
from beliefrag.models.protocol import ChatReply, ChatRequest
from beliefrag.policy import Thresholds
from beliefrag.prompts import Prompts
from beliefrag.record import CallStarted, Episode, Step, to_json_line
from beliefrag.types import Action, Budget, Decision, Hit, Question
from beliefrag.verifiers import build_verifier
from tests.support.episodes import PlannedRetriever, hits, play, published_method, script, verdict
from tests.support.reading import actions, prompts, says, why

SURE = verdict(0.95, 0.0, 0.05)
UNSURE = verdict(0.0, 1.0, 1.0)
ANSWER = {"purpose": "answer", "reply": "Paris"}
APART = Thresholds(merge_rewriter=False)
"""The paper's two calls: a rewriter, then the query writer."""


async def test_evidence_that_suffices_is_answered_from_at_once(tmp_path: Path) -> None:
    result = await play(script(tmp_path, SURE, ANSWER), PlannedRetriever(hits("a", "b")))
    assert result.outcome == "answered"
    assert result.answer == "Paris"
    assert list(result.sources) == ["a", "b"]
    assert result.usage.searches == 1
    assert "answerability" in why(result)


async def test_finding_nothing_is_declined_and_no_failure(tmp_path: Path) -> None:
    result = await play(script(tmp_path), PlannedRetriever([]))
    assert result.outcome == "abstained"
    assert "no passage was found" in why(result)
    assert result.usage.calls == 0
    never = published_method(thresholds=Thresholds(abstain=False))
    result = await play(script(tmp_path, ANSWER), PlannedRetriever([]), method=never)
    assert (result.outcome, result.sources) == ("stopped", ())


async def test_a_reply_that_was_cut_off_is_asked_for_again_and_then_a_failure(tmp_path: Path) -> None:
    class Cut:
        identity = "cut"

        def __init__(self) -> None:
            self.script = script(tmp_path, SURE, ANSWER | {"repeat": True})

        async def chat(self, request: ChatRequest) -> ChatReply:
            return replace(await self.script.chat(request), truncated=request.purpose == "answer")

        async def aclose(self) -> None: ...

    result = await play(Cut(), PlannedRetriever(hits("a")))
    assert result.outcome == "failed"
    assert "cut off" in result.message
    assert result.usage.by_purpose["answer"].calls == 2
    assert result.answerability is None


@pytest.mark.parametrize(
    ("thresholds", "replies"),
    [
        (APART, (says("rewriter", "other words"), says("query_writer", "SUFFICIENT - nothing is missing"))),
        (Thresholds(), (says("rewriter", "SUFFICIENT"),)),
    ],
)
async def test_sufficient_makes_no_search_uses_no_round_and_ends_next(
    tmp_path: Path, thresholds: Thresholds, replies: tuple[dict[str, Any], ...]
) -> None:
    retriever = PlannedRetriever(hits("a", "b"))
    model = script(tmp_path, verdict(0.1, 0.9, 1.0, unhelpful=[2]), *replies, ANSWER)
    result = await play(model, retriever, method=published_method(thresholds=thresholds))
    assert actions(result) == ["RETRIEVE", "VERIFY", "REWRITE", "RETRIEVE", "STOP"]
    assert retriever.queries == ["Which?"]
    assert [step.search for step in result.steps if step.search][-1].query is None
    assert (result.outcome, result.answer) == ("stopped", "Paris")
    assert "nothing left to search" in why(result)


@pytest.mark.parametrize(
    ("rewritten", "written", "searched"),
    [
        ("other words", "which?", "other words"),
        ("other words", "other words", "other words"),
        ("WHICH?", "which?", "Which? a"),
    ],
)
async def test_a_query_that_repeats_a_search_gives_way_to_the_rewritten_one_or_to_a_title(
    tmp_path: Path, rewritten: str, written: str, searched: str
) -> None:
    rewriter = [says("rewriter", rewritten)] * 2
    model = script(
        tmp_path, verdict(0.3, 0.7, 1.0, unhelpful=[2]), *rewriter, says("query_writer", written), SURE, ANSWER
    )
    retriever = PlannedRetriever(hits("a", "b"), hits("c"))
    result = await play(model, retriever, method=published_method(thresholds=APART))
    assert retriever.queries == ["Which?", searched]
    # The rewritten query is not named to the writer as a search that was made.
    assert "other words" not in prompts(result, "query_writer")[0]


async def test_with_nothing_retained_the_rewritten_query_is_searched_for(tmp_path: Path) -> None:
    lines = (verdict(0.0, 1.0, 1.0, unhelpful=[1, 2]), {"purpose": "rewriter", "reply": "other words"}, SURE, ANSWER)
    for thresholds in (APART, Thresholds()):
        retriever = PlannedRetriever(hits("a", "b"), hits("c"))
        result = await play(script(tmp_path, *lines), retriever, method=published_method(thresholds=thresholds))
        assert retriever.queries == ["Which?", "other words"]
        assert "query_writer" not in result.usage.by_purpose


async def test_one_call_corrects_the_query_in_view_of_evidence_and_reason(tmp_path: Path) -> None:
    model = script(
        tmp_path, verdict(0.3, 0.7, 1.0, unhelpful=[2]), {"purpose": "rewriter", "reply": "other words"}, SURE, ANSWER
    )
    retriever = PlannedRetriever(hits("a", "b"), hits("c"))
    result = await play(model, retriever)
    assert retriever.queries == ["Which?", "other words"]
    assert {purpose: usage.calls for purpose, usage in result.usage.by_purpose.items()} == {
        "verifier": 2,
        "rewriter": 1,
        "answer": 1,
    }
    call = next(e for e in result.calls if e.purpose == "rewriter")
    prompt = call.messages[-1]["content"]
    assert "alphaa" in prompt and "alphab" not in prompt
    assert "flagged one passage" in prompt
    assert "Searches made so far: Which?" in prompt


async def test_after_passages_are_dropped_what_is_left_is_not_judged_again(tmp_path: Path) -> None:
    flagged = verdict(0.3, 0.7, 1.0, unhelpful=[2])
    method = published_method(thresholds=replace(Thresholds(), correction_replaces=False))
    result = await play(script(tmp_path, flagged, ANSWER), PlannedRetriever(hits("a", "b")), method=method)
    assert result.usage.by_purpose["verifier"].calls == 1
    second, third = (step.diagnostics for step in result.steps[1:3])
    assert second and third and (second.support, second.gap) == (third.support, third.gap) == (0.3, 0.7)


async def test_a_correction_never_repeats_a_search_and_does_not_pay_twice(tmp_path: Path) -> None:
    same = {"purpose": "rewriter", "reply": "which?"}
    weak = verdict(0.0, 1.0, 1.0, unhelpful=[1])
    retriever = PlannedRetriever(hits("a", "c"), hits("b"))
    result = await play(script(tmp_path, weak, same, SURE, ANSWER), retriever)
    assert retriever.queries == ["Which?", "Which? c"]
    calls = result.calls
    assert [call.purpose for call in calls].count("rewriter") == 1
    assert calls[1].repairs == {"repeated_queries": 1}


async def test_a_search_that_returns_what_was_dropped_before_is_less_new(tmp_path: Path) -> None:
    model = script(tmp_path, verdict(0.3, 0.7, 1.0, unhelpful=[2]), says("rewriter", "other words"), SURE, ANSWER)
    result = await play(model, PlannedRetriever(hits("a", "b"), hits("b", "c")))
    second = [step.search for step in result.steps if step.search][1]
    assert (second.added, second.refused) == (("c",), ("b",))
    # One of the two passages is a repetition, though it is not taken back; the other shares no word with what is held.
    assert second.novelty == pytest.approx(0.5)


async def test_an_unreadable_verifier_reply_is_asked_for_again_then_read_with_caution(tmp_path: Path) -> None:
    garbage = {"purpose": "verifier", "reply": "I would say rather well."}
    result = await play(script(tmp_path, garbage, garbage, ANSWER), PlannedRetriever(hits("a")))
    assert result.outcome == "stopped"
    observed = result.steps[1].diagnostics
    assert observed is not None
    assert (observed.support, observed.conflict, observed.uncertainty, observed.gap) == (0.0, 0.0, 1.0, 1.0)
    repairs = [event.repairs for event in result.calls]
    assert repairs == [{"asked_again": 1}, {"unusable": 1}, {}]
    result = await play(script(tmp_path, garbage, SURE, ANSWER), PlannedRetriever(hits("a")))
    assert result.outcome == "answered"
    asked_again = result.calls[1].messages
    assert asked_again[-2]["content"] == "I would say rather well." and "JSON" in asked_again[-1]["content"]


async def test_an_answer_that_cannot_be_read_twice_is_a_failure_and_not_an_answer(tmp_path: Path) -> None:
    silence = {"purpose": "answer", "reply": "..."}
    result = await play(script(tmp_path, SURE, silence, silence), PlannedRetriever(hits("a")))
    assert result.outcome == "failed"
    assert result.cause == "UnreadableReply"
    assert result.answer is None


async def test_a_failing_search_is_a_failure_and_not_an_empty_result(tmp_path: Path) -> None:
    class Broken:
        def search(self, query: str, k: int) -> list[Hit]:
            raise ConnectionError("no route to the cluster")

    result = await play(script(tmp_path, SURE, ANSWER), Broken())
    assert result.outcome == "failed"
    assert result.cause == "RetrievalError"
    assert "no route to the cluster" in result.message


class Stubborn:
    """A method that always wants the same action, legal or not."""

    name = "stubborn"

    def __init__(self, action: Action) -> None:
        self.action = action

    def begin(self) -> Controller:
        return self

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        return Decision(self.action, "stubborn", legal=view.legal)


async def test_an_illegal_action_is_never_carried_out(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"))
    writer = {"purpose": "query_writer", "reply": "more", "repeat": True}
    result = await play(script(tmp_path, writer), retriever, method=Stubborn(Action.RETRIEVE))
    assert result.outcome == "failed"
    assert "not legal" in result.message
    assert len(retriever.queries) == Budget().rounds


async def test_a_method_may_bring_its_own_query_and_answer(tmp_path: Path) -> None:
    class Own(Stubborn):
        def decide(self, view: View, measurement: Measurement) -> Decision:
            if not view.queries:
                return Decision(Action.RETRIEVE, "own", query="my query")
            return Decision(Action.ANSWER, "own", answer="my answer")

    retriever = PlannedRetriever(hits("a"))
    result = await play(script(tmp_path), retriever, method=Own(Action.ANSWER))
    assert retriever.queries == ["my query"]
    assert result.answer == "my answer"
    assert result.usage.calls == 0


async def test_closing_the_stream_cancels_the_model_call() -> None:
    cancelled = asyncio.Event()

    class Slow:
        identity = "slow"

        async def chat(self, request: ChatRequest) -> ChatReply:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise
            raise AssertionError

        async def aclose(self) -> None: ...

    harness = Harness(Slow(), PlannedRetriever(hits("a")), Prompts.load(), build_verifier("structured"))
    stream = loop.run(Question("Which?"), published_method(), harness)
    seen = []
    async for progress in stream:
        seen.append(progress)
        if isinstance(progress, CallStarted):
            break
    await stream.aclose()
    assert isinstance(seen[0], Episode) and isinstance(seen[1], Step)
    assert cancelled.is_set()


async def test_the_stream_is_the_opening_each_step_and_the_whole_episode(tmp_path: Path) -> None:
    harness = Harness(
        script(tmp_path, SURE, ANSWER), PlannedRetriever(hits("a")), Prompts.load(), build_verifier("structured")
    )
    stream = [each async for each in loop.run(Question("Which?"), published_method(), harness)]
    opening, *_, ended = stream
    assert isinstance(opening, Episode) and opening.outcome is None and opening.steps == ()

    assert isinstance(ended, Episode) and ended.steps == tuple(each for each in stream if isinstance(each, Step))
    assert Episode.model_validate_json(to_json_line(ended), strict=True) == ended
    assert [each.purpose for each in stream if isinstance(each, CallStarted)] == [call.purpose for call in ended.calls]
