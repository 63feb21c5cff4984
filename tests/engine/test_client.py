import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beliefrag import BeliefRAG, Episode, Passage, Retriever, Settings, Step
from beliefrag.calibration import load_artifact
from beliefrag.errors import BeliefRAGError, CalibrationError, SettingsError
from beliefrag.models.scripted import Scripted
from beliefrag.retrieval import Bm25Index
from tests.support.episodes import PlannedRetriever, hits, verdict
from tests.support.messages import mentions

PASSAGES = [
    Passage("fram", "Fram", "The polar ship Fram was designed by Colin Archer."),
    Passage("archer", "Colin Archer", "Colin Archer was born in Larvik."),
]
SURE = verdict(0.95, 0.0, 0.05)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    yield


def given(tmp_path: Path, *lines: dict[str, Any]) -> dict[str, Any]:
    file = tmp_path / "model.jsonl"
    lines = lines or (SURE | {"repeat": True}, {"purpose": "answer", "reply": "Larvik", "repeat": True})
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return {"model": f"scripted:{file}", "borrow": "published"}


def test_a_question_is_answered_from_passages(tmp_path: Path) -> None:
    with BeliefRAG(passages=PASSAGES, **given(tmp_path)) as rag:
        result = rag.ask("In which town was the designer of the Fram born?")
    assert result.outcome == "answered"
    assert result.answer == "Larvik"
    assert set(result.sources) == {"fram", "archer"}
    assert result.answerability is not None
    assert result.answerability > 0.5
    assert result.belief is not None
    assert str(result).startswith("Larvik (answered, answerability 0.")
    assert result.calibrated is False and str(result).endswith("uncalibrated estimate)")
    assert mentions(result.made_with["calibration"], "published;", "borrowed", "openai:gpt-oss-120b")
    assert len(result.made_with["corpus"]) == 32
    assert (result.verifier, result.model.partition(":")[0]) == ("structured", "scripted")


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        ({"passages": PASSAGES, "borrow": None, "max_error": 0.1}, "no guarantee", "beliefrag calibrate auto"),
        ({"passages": PASSAGES, "retriever": "tea_leaves"}, "'tea_leaves'", "bm25"),
        ({}, "one source of passages", ""),
        ({"passages": PASSAGES, "index": "somewhere"}, "one source of passages", ""),
        ({"passages": ["The ship Fram"]}, "holds a str", "Passage(id, title, text)"),
        ({"passages": PASSAGES, "settings": Settings()}, "not both", ""),
    ],
)
def test_what_cannot_be_opened_is_refused_with_what_to_give(
    tmp_path: Path, options: dict[str, Any], problem: str, remedy: str
) -> None:
    with pytest.raises(BeliefRAGError, match=problem) as refused:
        BeliefRAG(**given(tmp_path) | options)
    assert remedy in refused.value.remedy


def test_a_question_is_answered_from_a_folder_of_documents(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "fram.txt").write_text("The polar ship Fram was designed by Colin Archer of Larvik.", encoding="utf-8")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing more")
    with BeliefRAG(folder, **given(tmp_path)) as rag:
        assert rag.ask("Who designed the Fram?").read_passages[0].source.endswith("fram.txt")
        assert [Path(skipped.path).name for skipped in rag.skipped] == ["broken.pdf"]


def test_a_retriever_that_was_given_is_not_closed_and_one_that_was_opened_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Bm25Index] = []

    def close(self: Bm25Index) -> None:
        closed.append(self)

    monkeypatch.setattr(Bm25Index, "close", close, raising=False)
    mine = Bm25Index.in_memory(PASSAGES)
    BeliefRAG(retriever=mine, **given(tmp_path)).close()
    assert closed == []
    BeliefRAG(passages=PASSAGES, retriever="bm25", **given(tmp_path)).close()
    assert len(closed) == 1


async def test_aask_answers_several_questions_side_by_side_and_ask_works_in_a_running_loop(tmp_path: Path) -> None:
    async with BeliefRAG(passages=PASSAGES, **given(tmp_path)) as rag:
        results = await asyncio.gather(*(rag.aask(f"Which ship {n}?") for n in range(8)))
        assert rag.ask("Which ship?").answer == "Larvik"
    assert [result.answer for result in results] == ["Larvik"] * 8
    assert [result.question.text for result in results] == [f"Which ship {n}?" for n in range(8)]


async def test_a_stream_goes_from_the_opening_to_the_whole_episode_with_or_without_an_event_loop(
    tmp_path: Path,
) -> None:
    with BeliefRAG(passages=PASSAGES, **given(tmp_path)) as rag:
        streams = [[each async for each in rag.stream("Which ship?")], list(rag.events("Which ship?"))]
        for ask in (rag.ask, lambda question: list(rag.events(question))):
            with pytest.raises(SettingsError, match="empty"):
                ask("   ")
    for stream in streams:
        assert isinstance(stream[0], Episode) and isinstance(stream[-1], Episode)
        assert [step.action for step in stream if isinstance(step, Step)] == ["RETRIEVE", "ANSWER"]


def test_search_finds_passages_without_asking_a_model(tmp_path: Path) -> None:
    with BeliefRAG(passages=PASSAGES, **given(tmp_path, SURE)) as rag:
        assert [hit.passage.id for hit in rag.search("Where was Archer born?")] == ["archer", "fram"]
        assert [hit.passage.id for hit in rag.search("Where was Archer born?", 1)] == ["archer"]
        assert isinstance(rag, Retriever)


def test_closing_twice_is_harmless_and_nothing_is_asked_after_it(tmp_path: Path) -> None:
    rag = BeliefRAG(passages=PASSAGES, **given(tmp_path))
    rag.close()
    rag.close()
    with pytest.raises(SettingsError, match="closed"):
        rag.ask("Which ship?")


def test_a_retriever_of_ones_own_is_doubted_and_one_of_another_name_is_refused(tmp_path: Path) -> None:
    class Named(PlannedRetriever):
        identity = "my engine"

    settings = given(tmp_path) | {"borrow": None, "method": "beliefrag", "calibration": str(tmp_path / "mine.json")}
    own = {
        "name": "mine",
        "backbone": Scripted(tmp_path / "model.jsonl").identity,
        "verifier": "structured",
        "prompts": {},
    }
    artifact = load_artifact("qwen2.5-coder-1.5b").model_copy(update=own)
    (tmp_path / "mine.json").write_text(artifact.model_dump_json(), encoding="utf-8")
    with BeliefRAG(retriever=PlannedRetriever(hits("a")), **settings) as rag:
        made_with = rag.ask("Which ship?").made_with
    assert made_with["calibration"].startswith("mine; fitted with bm25")
    assert mentions(made_with["calibration"], "retriever does not say")
    with pytest.raises(CalibrationError, match=r"retriever bm25 .*my engine.*--borrow"):
        BeliefRAG(retriever=Named(hits("a")), **settings)
    with BeliefRAG(passages=PASSAGES, **settings) as rag:
        episode = rag.ask("Which ship?")
    assert (episode.made_with["calibration"], episode.calibrated) == ("mine", True)


@pytest.mark.parametrize(("merged", "query_calls"), [(True, 1), (False, 2)])
def test_a_correction_writes_its_query_in_as_many_calls_as_the_setting_says(
    tmp_path: Path, merged: bool, query_calls: int
) -> None:
    lines = (
        verdict(0.0, 1.0, 1.0, unhelpful=[1]),
        {"purpose": "rewriter", "reply": "the designer's birthplace"},
        {"purpose": "query_writer", "reply": "where Colin Archer was born"},
        SURE | {"repeat": True},
        {"purpose": "answer", "reply": "Larvik"},
    )
    chosen: dict[str, Any] = {"method": "beliefrag", "thresholds": {"merge_rewriter": merged}}
    with BeliefRAG(retriever=PlannedRetriever(hits("a", "b"), hits("c")), **given(tmp_path, *lines), **chosen) as rag:
        used = rag.ask("Where was the designer of the Fram born?").usage.by_purpose
    assert sum(used[name].calls for name in ("rewriter", "query_writer") if name in used) == query_calls


def test_a_conversation_keeps_its_turns_until_it_is_cleared(tmp_path: Path) -> None:
    question = "In which town was the designer of the Fram born?"
    rewrite = {"purpose": "standalone", "reply": question, "repeat": True}
    lines = (SURE | {"repeat": True}, {"purpose": "answer", "reply": "Larvik", "repeat": True}, rewrite)
    with BeliefRAG(passages=PASSAGES, **given(tmp_path, *lines)) as rag:
        talk = rag.conversation()
        first = talk.ask(question)
        second = talk.ask("Where is it?")
        assert (second.standalone, second.answer, second.usage.searches) == (question, "Larvik", 0)
        assert {hit.passage.id for hit in second.carried} == set(first.sources)
        assert [turn.answer for turn in talk.turns] == ["Larvik", "Larvik"]
        *_, last = talk.events("And there?")
        assert isinstance(last, Episode) and last.standalone == question and len(talk.turns) == 3
        limited = talk.ask("Where is it?", where="type=pdf")
        assert (limited.carried, limited.sources, limited.made_with["where"]) == ((), (), "type=pdf")
        talk.clear()
        assert not talk.turns and talk.ask("Where is it?").outcome == "abstained"
