"""An episode with a history and an answer in sentences: what it asks, keeps, shows and removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from beliefrag.answering.conversation import make_turn
from beliefrag.engine import loop
from beliefrag.engine.loop import Harness
from beliefrag.explanation import ask_back, explain_episode
from beliefrag.prompts import Prompts
from beliefrag.record import Episode
from beliefrag.types import Action, Hit, Passage, Question, Turn
from beliefrag.verifiers import build_verifier
from tests.engine.test_declining import Planned
from tests.support.episodes import PlannedRetriever, published_method, script, verdict

TOWER = Hit(Passage("tower", "Graz", "Graz has a clock tower. The clock tower of Graz is 28 m high."), 30.0)
LINZ = Hit(Passage("linz", "Linz", "Linz lies on the Danube."), 29.0)
SURE = verdict(0.95, 0.0, 0.05) | {"repeat": True}
UNSURE = verdict(0.05, 0.9, 0.9)
ANSWER = {"purpose": "answer", "reply": "28 m", "repeat": True}
FULL = "How high is the clock tower of Graz?"
EARLIER = Turn("Does Graz have a clock tower?", "Yes", (TOWER,))


async def play(
    folder: Path,
    *lines: Mapping[str, Any],
    question: str = FULL,
    history: Sequence[Turn] = (),
    found: Sequence[Hit] = (TOWER, LINZ),
    **how: Any,
) -> tuple[Episode, PlannedRetriever]:
    retriever = PlannedRetriever(found)
    model = script(folder, *lines)
    harness = Harness(model, retriever, Prompts.load(), build_verifier("structured"), **how)
    return await loop.play(Question(question), published_method(), harness, history), retriever


def purposes(episode: Episode) -> list[str]:
    return [call.purpose for call in episode.calls]


async def test_an_answer_is_written_in_sentences_from_the_same_evidence_and_the_short_one(tmp_path: Path) -> None:
    write = {"purpose": "write", "reply": "The clock tower of Graz is 28 m high. It is 99 m wide."}
    episode, _ = await play(tmp_path, SURE, ANSWER, write, style="sentence")
    assert episode.answer == "The clock tower of Graz is 28 m high."
    assert (episode.short_answer, episode.left_out, len(episode.sentences)) == ("28 m", 1, 1)
    assert "28 m" in episode.citations[episode.sentences[0].cites[0]].quote
    prompts = {call.purpose: call.messages[1]["content"] for call in episode.calls}
    shared = prompts["answer"].partition("Answer the question")[0]
    assert shared.endswith(f"Question: {FULL}\n\n") and prompts["write"].startswith(shared), "a runtime reads it once"
    assert episode == Episode.model_validate_json(episode.model_dump_json())


async def test_where_no_sentence_is_supported_the_short_answer_is_given(tmp_path: Path) -> None:
    write = {"purpose": "write", "reply": "The Eiffel Tower opened in 1889."}
    episode, _ = await play(tmp_path, SURE, ANSWER, write, style="paragraph")
    assert (episode.answer, episode.left_out, episode.sentences) == ("28 m", 1, ())
    assert episode.citations


@pytest.mark.parametrize("style", ["short", "sentence"])
async def test_a_declined_question_pays_for_no_sentence(tmp_path: Path, style: str) -> None:
    unsure = UNSURE | {"repeat": True}
    query = {"purpose": "query_writer", "reply": "SUFFICIENT", "repeat": True}
    episode, _ = await play(tmp_path, unsure, query, ANSWER, found=(), style=style)
    assert (episode.outcome, "write" in purposes(episode)) == ("abstained", False)


async def test_a_follow_up_is_rewritten_and_answered_from_the_passages_of_the_turn_before(tmp_path: Path) -> None:
    rewrite = {"purpose": "standalone", "reply": FULL}
    episode, retriever = await play(tmp_path, rewrite, SURE, ANSWER, question="How high is it?", history=[EARLIER])
    assert (episode.question.text, episode.standalone, episode.answer) == ("How high is it?", FULL, "28 m")
    assert retriever.queries == [], "the passages are there"
    assert [step.action for step in episode.steps] == ["ANSWER"]
    assert "28 m" in episode.citations[-1].quote and episode.citations[-1].passage_id == "tower"
    assert purposes(episode) == ["standalone", "verifier", "answer"]
    assert "Does Graz have a clock tower?" in episode.calls[0].messages[1]["content"]
    assert make_turn(episode) == Turn(FULL, "28 m", (TOWER,))


async def test_a_follow_up_that_stands_alone_costs_no_call_and_searches_if_the_kept_passages_lack_it(
    tmp_path: Path,
) -> None:
    question = "Which river is near the clock tower of Graz?"
    lines = [UNSURE, SURE, {"purpose": "answer", "reply": "Mur"}]
    river = Hit(Passage("mur", "Mur", "The river Mur flows past the clock tower of Graz."), 31.0)
    episode, retriever = await play(tmp_path, *lines, question=question, history=[EARLIER], found=[river])
    assert (episode.standalone, retriever.queries) == ("", [question])
    assert purposes(episode) == ["verifier", "verifier", "answer"]
    assert set(episode.sources) == {"tower", "mur"}
    turn = make_turn(episode)
    assert {hit.passage.id: hit.score for hit in turn.found} == {"tower": 30.0, "mur": 31.0}


@pytest.mark.parametrize("reply", ["word " * 80, "Does Linz have a harbour?"])
async def test_a_rewriting_that_asks_something_else_leaves_the_follow_up_as_it_is(tmp_path: Path, reply: str) -> None:
    rewrite = {"purpose": "standalone", "reply": reply, "repeat": True}
    question = "What about the clock tower of Graz?"
    episode, _ = await play(tmp_path, rewrite, SURE, ANSWER, question=question, history=[EARLIER])
    assert (episode.standalone, episode.answer) == ("", "28 m")


async def test_an_unclear_question_is_declined_with_a_question_back_and_costs_nothing(tmp_path: Path) -> None:
    episode, retriever = await play(tmp_path, question="How much is it?", asks_back=True)
    assert (episode.outcome, episode.reason, retriever.queries) == ("abstained", "abstain-unclear:it", [])
    assert episode.usage.calls == 0
    question = ask_back(episode)
    assert question is not None and "it" in question
    assert "understood by itself" in explain_episode(episode).would_change


async def test_a_failed_rewriting_fails_the_episode(tmp_path: Path) -> None:
    broken = {"purpose": "standalone", "error": {"status": 400}, "repeat": True}
    episode, _ = await play(tmp_path, broken, question="How high is it?", history=[EARLIER])
    assert (episode.outcome, episode.steps, episode.answer) == ("failed", (), None)


@pytest.mark.parametrize(("collection", "outcome"), [(40, "abstained"), (2, "answered"), (None, "abstained")])
async def test_a_count_over_part_of_the_collection_is_declined(
    tmp_path: Path, collection: int | None, outcome: str
) -> None:
    counting = Planned(((Action.RETRIEVE, 0.9, None), (Action.ANSWER, 0.9, "7")))
    model, retriever = script(tmp_path, ANSWER), PlannedRetriever((TOWER, LINZ))
    form = build_verifier("structured")
    harness = Harness(model, retriever, Prompts.load(), form, asks_back=True, collection=collection)
    episode = await loop.play(Question("How many towns have a tower?"), counting, harness)
    assert (episode.outcome, episode.collection) == (outcome, collection)
    if collection == 40:
        assert "2 of 40 passages" in explain_episode(episode, whole=True).searched
