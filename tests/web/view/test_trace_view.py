"""Episodes from their events: a trace file, whole, torn or damaged, and an episode under way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.types import Provenance
from beliefrag.web.view import LiveSource, TraceSource, ViewError
from beliefrag.web.view.schema import NotAvailable
from beliefrag.web.view.trace import read_trace, view_events, view_prompts
from tests.support.episodes import PlannedRetriever, hits, play, script, verdict
from tests.support.viewing import SCRIPT


def test_a_trace_tells_the_whole_episode(trace: Path) -> None:
    source = TraceSource(trace)
    episode, prompts = source.episode(0), source.prompts(0)
    assert (episode.origin, episode.outcome, episode.answer) == ("trace", "stopped", "Larvik")
    assert [step.action for step in episode.steps][:4] == ["RETRIEVE", "VERIFY", "REWRITE", "RETRIEVE"]
    first, second = episode.steps[:2]
    assert first.search is not None
    assert first.search.is_question
    assert len(first.search.hits) == len(first.search.added) == 2
    assert [each.id for each in second.dropped] == [first.search.added[1]]
    assert "flagged" in second.dropped[0].why
    assert set(episode.passages) == set(first.search.added)
    assert any(SCRIPT in (passage.text or "") for passage in episode.passages.values())
    assert episode.thresholds["answer"] == 0.5
    assert len(prompts.calls) == len(episode.calls)
    assert episode.question is not None
    assert episode.question in prompts.calls[0][-1].content
    assert episode.usage.calls == len(episode.calls)


def test_a_reply_that_was_mended_says_so_in_words(trace: Path) -> None:
    first, second = TraceSource(trace).episode(0).calls[:2]
    assert (first.purpose, first.repairs) == ("verifier", ("1 replies mended",))
    assert second.repairs == ()


def test_there_is_one_episode_in_a_trace(trace: Path) -> None:
    with pytest.raises(NotAvailable, match=r"no episode 1 .*number 0"):
        TraceSource(trace).episode(1)


def test_a_trace_that_was_torn_by_a_kill_is_shown_as_far_as_it_goes(trace: Path, tmp_path: Path) -> None:
    lines = trace.read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    episode = TraceSource(torn).episode(0)
    assert (episode.outcome, episode.error and episode.error.cause) == ("failed", "torn")
    assert len(episode.steps) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no json\n",
        b"[1, 2]\n",
        b'{"event": "finished"}\n',
        b'{"event": "started"}\n',
        b'{"event": "started", "question": 7, "method": "x", "model": "y"}\n',
        b"\xff\xfe\x00\n",
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_bytes(content)
    with pytest.raises(ViewError, match="is not a trace"):
        TraceSource(file)


def test_a_trace_with_a_value_of_another_type_is_refused(trace: Path, tmp_path: Path) -> None:
    records = [json.loads(line) for line in trace.read_text().splitlines()]
    decided = next(record for record in records if record["event"] == "decided")
    decided["tokens"] = "many"
    file = tmp_path / "odd.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(ViewError, match="holds another type"):
        TraceSource(file)


def test_half_a_surrogate_pair_is_shown_as_a_replacement(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "halves.jsonl"
    file.write_bytes(trace.read_bytes().replace(b'"answer":"Larvik"', b'"answer":"L\\ud800k \\ud83d\\ude80"'))
    episode = TraceSource(file).episode(0)
    assert episode.answer == "L\N{REPLACEMENT CHARACTER}k \N{ROCKET}"
    assert json.loads(episode.model_dump_json())["answer"] == episode.answer


def test_every_beginning_of_an_episode_can_be_shown(trace: Path) -> None:
    records = read_trace(trace)
    for known in range(len(records) + 1):
        episode = view_events(records[:known], live=True, thresholds={})
        assert (episode.outcome == "running") == (known < len(records))
        assert bool(episode.waiting) == (known < len(records))
        view_prompts(records[:known])


async def test_how_a_passage_was_found_is_told(tmp_path: Path) -> None:
    model = script(tmp_path, verdict(0.9, 0.0, 0.0), {"purpose": "answer", "reply": "here"})
    first, second = hits("one", "two")
    linked = replace(second, provenance=Provenance("link", "one", "Fram"))
    result = await play(model, PlannedRetriever([first, linked]))
    source = LiveSource({"answer": 0.5})
    for event in result.events:
        source.add_event(event)
    search = source.episode(0).steps[0].search
    assert search is not None
    assert {each: (by.way, by.passage, by.name) for each, by in search.found_by.items()} == {
        "two": ("link", "one", "Fram")
    }


async def test_an_episode_under_way_grows_with_each_event(tmp_path: Path) -> None:
    model = script(tmp_path, verdict(0.9, 0.0, 0.0), {"purpose": "answer", "reply": "here"})
    result = await play(model, PlannedRetriever(hits("one", "two")))
    source = LiveSource({"answer": 0.5})
    assert (source.version, source.ended) == (0, False)
    assert source.episode(0).waiting == "it to begin"
    steps = []
    for event in result.events:
        source.add_event(event)
        steps.append(len(source.episode(0).steps))
    assert steps == sorted(steps)
    assert source.ended
    final = source.episode(0)
    assert (final.outcome, final.answer, final.thresholds) == ("answered", "here", {"answer": 0.5})
    assert final.usage.calls == len(source.prompts(0).calls) == 2
