"""Episodes of traces and of running commands, and the one file that an episode is exported to."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from beliefrag.engine import loop
from beliefrag.engine.loop import Harness
from beliefrag.prompts import Prompts
from beliefrag.types import Provenance, Question
from beliefrag.verifiers import build_verifier
from beliefrag.web.view import LiveSource, RunSource, TraceSource, ViewError, ViewServer, export_name, export_page
from beliefrag.web.view.schema import NotAvailable
from tests.support.episodes import PlannedRetriever, hits, published_method, script, verdict
from tests.support.viewing import HOSTILE, SCRIPT, client
from tests.web.view.conftest import Played


def test_a_trace_holds_the_whole_episode(trace: Path) -> None:
    source = TraceSource(trace)
    view, prompts = source.episode(0), source.prompts(0)
    record = view.record
    assert (view.origin, record.outcome, record.answer) == ("trace", "stopped", "Larvik")
    assert [step.action for step in record.steps][:4] == ["RETRIEVE", "VERIFY", "REWRITE", "RETRIEVE"]
    first, second = record.steps[:2]
    assert first.search is not None and first.search.query == view.question
    assert len(first.search.hits) == len(first.search.added) == 2
    assert second.dropped == (first.search.added[1],)
    assert "flagged" in view.reasons[1]
    assert set(view.passages) == set(first.search.added)
    assert any(passage and SCRIPT in passage.text for passage in view.passages.values())
    assert view.thresholds["answer"] == 0.5
    assert record.usage.calls == len(record.calls) == len(prompts.calls)
    assert view.question is not None and view.question in prompts.calls[0][-1]["content"]
    assert not any(call.messages for call in record.calls), "prompts are loaded apart"
    assert [call.repairs for call in record.calls[:2]] == [{"repaired": 1}, {}]


def test_there_is_one_episode_in_a_trace(trace: Path) -> None:
    with pytest.raises(NotAvailable, match=r"Only episode 0 .*not episode 1"):
        TraceSource(trace).episode(1)


def test_a_trace_that_was_torn_by_a_kill_is_shown_as_far_as_it_goes(trace: Path, tmp_path: Path) -> None:
    lines = trace.read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"".join(lines[:2]) + lines[2][:20])
    record = TraceSource(torn).episode(0).record
    assert (record.outcome, record.cause, len(record.steps)) == ("failed", "torn", 1)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no json\n",
        b"[1, 2]\n",
        b'{"event": "started"}\n',
        b'{"number": 0, "action": "RETRIEVE"}\n',
        b'{"method": "x", "question": 7}\n',
        b"\xff\xfe\x00\n",
    ],
)
def test_what_is_not_a_trace_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_bytes(content)
    with pytest.raises(ViewError, match="is not a trace"):
        TraceSource(file)


async def test_an_episode_under_way_grows_with_each_part(tmp_path: Path) -> None:
    model = script(tmp_path, verdict(0.9, 0.0, 0.0), {"purpose": "answer", "reply": "here"})
    first, second = hits("one", "two")
    linked = replace(second, provenance=Provenance("link", "one", "Fram"))
    harness = Harness(model, PlannedRetriever([first, linked]), Prompts.load(), build_verifier("structured"))
    source = LiveSource()
    assert (source.version, source.record.outcome, source.episode(0).waiting) == (0, None, "it to begin")
    steps = []
    async for progress in loop.run(Question("Which?"), published_method(), harness):
        source.add(progress)
        steps.append(len(source.episode(0).record.steps))
        assert bool(source.episode(0).waiting) is (source.record.outcome is None)
    assert steps == sorted(steps) and source.record.finished
    final = source.episode(0).record
    assert (final.outcome, final.answer) == ("answered", "here")
    assert final.usage.calls == len(source.prompts(0).calls) == 2
    assert final.steps[0].search and final.steps[0].search.found_by == {"two": Provenance("link", "one", "Fram")}


class Elements(HTMLParser):
    """What a browser would see: elements with their attributes, and the text of each script and style."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem in self.texts:
            self.texts[str(self.cdata_elem)][-1] += data


@pytest.fixture(scope="module")
def page(trace: Path) -> str:
    source = TraceSource(trace)
    return export_page(source.episode(0), source.prompts(0))


def test_the_file_holds_the_whole_episode_and_its_prompts(trace: Path, page: str) -> None:
    data = json.loads(Elements(page).texts["script"][0])
    source = TraceSource(trace)
    assert data["episode"] == source.episode(0).model_dump(mode="json")
    assert data["prompts"] == source.prompts(0).model_dump(mode="json")
    assert any(HOSTILE[:20] in passage["text"] for passage in data["episode"]["passages"].values())


def test_no_text_of_the_episode_becomes_an_element(page: str) -> None:
    tags = [tag for tag, _ in Elements(page).seen]
    assert tags.count("script") == 2
    assert tags.count("img") == 0
    assert "window.hacked = 1</script>" not in page


def test_only_its_own_script_and_style_may_run(page: str) -> None:
    elements = Elements(page)
    policy = next(attrs["content"] for tag, attrs in elements.seen if tag == "meta" and "http-equiv" in attrs)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for kind, text in (("script", elements.texts["script"][1]), ("style", elements.texts["style"][0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_nothing_is_fetched_from_anywhere(page: str) -> None:
    for tag, attrs in Elements(page).seen:
        assert not {"src", "href", "srcset", "action"} & set(attrs), tag


def test_the_name_of_the_file_is_harmless_whatever_the_question_is_called(played: Played) -> None:
    with ViewServer(RunSource(played.run, [played.data])) as running, client(running) as known:
        row = known.get("/api/episodes", params={"text": "../../etc", "method": "static"}).json()["episodes"][0]
        answer = known.get(f"/episode/{row['id']}/export")
        assert answer.headers["content-disposition"] == 'attachment; filename="episode-south-etc-passwd-static.html"'
        assert answer.text.startswith("<!doctype html>")
        episode = RunSource(played.run, [played.data]).episode(row["id"])
        assert re.fullmatch(r"[A-Za-z0-9-]+\.html", export_name(episode))
