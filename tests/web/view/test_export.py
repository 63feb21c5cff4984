"""An exported episode: one file, nothing from elsewhere, and nothing in it that acts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from beliefrag.web.view import RunSource, TraceSource, ViewServer, export_name, export_page
from tests.support.viewing import HOSTILE, client
from tests.web.view.conftest import Played


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
