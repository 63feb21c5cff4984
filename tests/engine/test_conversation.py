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
from beliefrag.types import Action, Budget, Hit, Passage, Question, Turn
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
    likely = (episode.answerability or 0.0) * episode.sentences[0].support
    assert 0.0 < likely == pytest.approx(episode.sentences[0].probability, abs=1e-3)
    prompts = {call.purpose: call.messages[1]["content"] for call in episode.calls}
    shared = prompts["answer"].partition("Answer the question")[0]
    assert shared.endswith(f"Question: {FULL}\n\n") and prompts["write"].startswith(shared), "a runtime reads it once"
    assert episode == Episode.model_validate_json(episode.model_dump_json())


async def test_where_no_sentence_is_supported_the_short_answer_is_given(tmp_path: Path) -> None:
    write = {"purpose": "write", "reply": "The Eiffel Tower opened in 1889."}
    episode, _ = await play(tmp_path, SURE, ANSWER, write, style="paragraph")
    assert (episode.answer, episode.left_out, episode.sentences) == ("28 m", 1, ())
    assert episode.citations
    asks: dict[str, Any] = {"style": "paragraph", "asks_back": True}
    plain, _ = await play(tmp_path, SURE, ANSWER, write, **asks)
    assert (plain.outcome, plain.answer) == ("answered", "28 m"), "a method without a probability does not decline"
    declined, _ = await play(tmp_path, SURE, ANSWER, write, **asks, calibrated=False)
    assert (declined.outcome, declined.answer, declined.best_guess) == ("abstained", None, "28 m")
    assert (declined.reason, declined.steps[-1].action) == ("abstain-unsupported", Action.ABSTAIN)
    german = {"purpose": "write", "reply": "Der Turm ist sehr hoch, und er steht auf dem Berg in der Stadt."}
    foreign, _ = await play(tmp_path, SURE, ANSWER, german, **asks, calibrated=False)
    assert (foreign.answer, foreign.left_out) == ("28 m", 0), "the check knows nothing of another language"


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
    turn = make_turn(episode)
    assert (turn.question, turn.answer, turn.found) == (FULL, "28 m", (TOWER,))


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


SHIPS = [Hit(Passage(f"s{n}", f"Ship {n}", f"The ship Aurora{n} was built in Larvik."), 20.0 - n) for n in range(12)]
LISTS = "List all ships that were built in Larvik."
COUNTS = "How many ships were built in Larvik?"


async def gather(folder: Path, question: str, *replies: str, draft: str, **how: Any) -> Episode:
    lines = [{"purpose": "gather", "reply": reply} for reply in replies]
    plan = Planned(((Action.RETRIEVE, 0.9, None), (Action.ANSWER, 0.9, draft), (Action.ANSWER, 0.9, draft)))
    retriever = PlannedRetriever(SHIPS[:5], SHIPS)
    how = {"asks_back": True, "collection": 40, "calibrated": True} | how
    harness = Harness(script(folder, *lines), retriever, Prompts.load(), build_verifier("structured"), **how)
    return await loop.play(Question(question), plan, harness)


async def test_a_list_is_gathered_in_rounds_without_duplicates_until_a_round_adds_nothing(tmp_path: Path) -> None:
    rounds = ["- Aurora1\n- Aurora2\n- The Nautilus", "1. aurora2\n2. Aurora7", "NONE"]
    episode = await gather(tmp_path, LISTS, *rounds, draft="Aurora1")
    assert (episode.outcome, episode.answer) == ("answered", "Aurora1; Aurora2; Aurora7")
    assert (episode.short_answer, episode.left_out, episode.calibrated) == ("Aurora1", 1, False)
    cited = [episode.citations[each.cites[0]].passage_id for each in episode.sentences]
    assert cited == ["s1", "s2", "s7"]
    assert len(episode.sources) == 12 and set(episode.sources) <= set(episode.passages)
    assert "Only 12 of 40 passages were read." in explain_episode(episode, whole=True).notes
    assert purposes(episode) == ["gather"] * 3
    assert episode == Episode.model_validate_json(episode.model_dump_json())


@pytest.mark.parametrize(("collection", "outcome"), [(12, "answered"), (40, "abstained"), (None, "abstained")])
async def test_a_count_is_given_only_over_the_whole_collection(
    tmp_path: Path, collection: int | None, outcome: str
) -> None:
    rounds = ["Aurora1\nAurora2", "NONE", "Aurora11"]
    episode = await gather(tmp_path, COUNTS, *rounds, draft="9", collection=collection)
    assert episode.outcome == outcome
    if collection == 12:
        assert (episode.answer, len(episode.sources)) == ("3: Aurora1; Aurora2; Aurora11", 12)
    else:
        assert (episode.answer, episode.best_guess) == (None, "at least 2: Aurora1; Aurora2")
        assert (episode.reason, len(episode.sources)) == ("abstain-own-count", 10)


async def test_rounds_keep_within_the_budget(tmp_path: Path) -> None:
    episode = await gather(tmp_path, LISTS, "Aurora1", "Aurora5", draft="Aurora1", budget=Budget(tokens=900))
    assert (episode.answer, len(episode.sources), purposes(episode)) == ("Aurora1", 5, ["gather"])


@pytest.mark.parametrize("question", ["Wie hoch ist der Uhrturm von Graz?", FULL])
async def test_an_answer_is_asked_for_in_the_language_of_the_question(tmp_path: Path, question: str) -> None:
    german = Hit(Passage("turm", "Graz", "Graz hat einen Uhrturm, der auf dem Berg ist. Er ist 28 m hoch."), 30.0)
    write = {"purpose": "write", "reply": "Der Uhrturm ist 28 m hoch."}
    found, _ = await play(tmp_path, SURE, ANSWER, write, question=question, found=(german,), style="sentence")
    endings = {call.purpose: call.messages[-1]["content"].endswith("Answer in German.") for call in found.calls}
    assert endings == {"verifier": False, "answer": question != FULL, "write": question != FULL}
