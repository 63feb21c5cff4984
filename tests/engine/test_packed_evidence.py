"""With packing, prompts show sentences; evidence, sources and the trace still know whole passages."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag.methods import MethodInputs, build_method
from beliefrag.policy import Thresholds
from beliefrag.record import Episode
from beliefrag.retrieval import Bm25Index
from beliefrag.types import Hit, Passage
from tests.support.episodes import PlannedRetriever, play, script, verdict

FILLER = "The weather of that year was mild and many people went to the coast for some days. " * 4
LONG = [
    Hit(Passage(name, name.title(), f"{FILLER}The {name} was painted by {painter}. {FILLER}"), score)
    for name, painter, score in (("portrait", "Anna Vane", 9.0), ("landscape", "Otto Brun", 8.0))
]
QUESTION = "Who painted the portrait?"


async def _play(folder: Path, method: str, pack: int | None) -> Episode:
    model = script(
        folder,
        verdict(0.95, 0.05, 0.05) | {"repeat": True},
        {"purpose": "query_writer", "reply": "portrait painter", "repeat": True},
        {"purpose": "answer", "reply": "Anna Vane", "repeat": True},
    )
    chosen = build_method(method, MethodInputs(None, Thresholds())) if method != "beliefrag" else None
    return await play(model, PlannedRetriever(LONG), question=QUESTION, method=chosen, pack=pack)


def _prompts(result: Episode) -> list[str]:
    return [call.messages[-1]["content"] for call in result.calls]


@pytest.mark.parametrize("method", ["static", "iterative", "beliefrag"])
async def test_prompts_show_the_best_sentences_and_sources_are_whole(tmp_path: Path, method: str) -> None:
    whole = await _play(tmp_path, method, None)
    packed = await _play(tmp_path, method, 40)

    assert packed.answer == "Anna Vane"
    assert packed.read_passages == tuple(hit.passage for hit in LONG)
    for prompt in _prompts(packed):
        assert "The portrait was painted by Anna Vane." in prompt
    assert max(map(len, _prompts(packed))) < min(map(len, _prompts(whole)))


async def test_a_slip_of_typing_is_corrected_for_search_and_prompts_and_a_run_keeps_no_question(tmp_path: Path) -> None:
    typed, index = "Who painted the portriat?", Bm25Index.in_memory(hit.passage for hit in LONG)
    model = script(tmp_path, {"purpose": "answer", "match": QUESTION, "reply": "Anna Vane"})
    episode = await play(model, index, question=typed, method=build_method("static", MethodInputs(None, Thresholds())))
    assert (episode.question.text, episode.standalone, episode.answer) == (typed, QUESTION, "Anna Vane")
    assert "painted" not in episode.without_texts().model_dump_json()
