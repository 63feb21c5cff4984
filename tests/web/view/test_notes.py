"""Notes on episodes: where they are kept, who may write them, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from beliefrag.runs.episode import EpisodeKey
from beliefrag.web.view import RunSource, ViewError, ViewServer
from beliefrag.web.view.notes import LONGEST_NOTE, NOTES_FILE, NoteChanged, RunNotes
from tests.support.viewing import HOSTILE, client
from tests.web.view.conftest import Played

KEY = EpisodeKey("north", "static", "north-q0", 0)


@pytest.fixture
def run(played: Played, tmp_path: Path) -> Path:
    return Path(shutil.copytree(played.run, tmp_path / "run"))


@pytest.fixture
def server(run: Path) -> Iterator[ViewServer]:
    with ViewServer(RunSource(run)) as running:
        yield running


@pytest.fixture
def known(server: ViewServer) -> Iterator[httpx2.Client]:
    with client(server) as opened:
        yield opened


def guarded(server: ViewServer, known: httpx2.Client) -> dict[str, str]:
    """What a page of the viewer sends with a change."""
    key = known.get("/api/about").json()["write_key"]
    return {"origin": f"http://127.0.0.1:{server.port}", "x-beliefrag-write": key, "sec-fetch-site": "same-origin"}


def body(text: str, before: str = "") -> str:
    return json.dumps({"text": text, "before": before})


def test_notes_are_kept_in_a_file_beside_the_run_by_their_episode(tmp_path: Path) -> None:
    RunNotes(tmp_path).write(KEY, f"  {HOSTILE} \ud83d half\n", "")
    (kept,) = json.loads((tmp_path / NOTES_FILE).read_text(encoding="utf-8"))["notes"]
    assert EpisodeKey(*(kept[name] for name in EpisodeKey._fields)) == KEY
    assert kept["text"] == f"{HOSTILE} \ufffd half"
    assert RunNotes(tmp_path).read() == {KEY: kept["text"]}
    RunNotes(tmp_path).write(KEY, " ", kept["text"])
    assert RunNotes(tmp_path).read() == {}


def test_a_note_that_was_changed_elsewhere_is_not_overwritten(tmp_path: Path) -> None:
    notes = RunNotes(tmp_path)
    notes.write(KEY, "first", "")
    with pytest.raises(NoteChanged, match="changed elsewhere"):
        RunNotes(tmp_path).write(KEY, "second", "")
    assert notes.read() == {KEY: "first"}


def test_notes_written_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    keys = [KEY._replace(question_id=f"q{number}") for number in range(24)]
    with ThreadPoolExecutor(8) as threads:
        # Each has an object of its own, as two viewers of one run do.
        list(threads.map(lambda key: RunNotes(tmp_path).write(key, key.question_id, ""), keys))
    assert RunNotes(tmp_path).read() == {key: key.question_id for key in keys}


def test_a_failed_write_leaves_the_notes_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = RunNotes(tmp_path)
    notes.write(KEY, "first", "")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("beliefrag.web.view.notes.os.fsync", full)
    with pytest.raises(ViewError, match="No space left on device"):
        notes.write(KEY, "second", "first")
    assert notes.read() == {KEY: "first"}


def test_the_file_of_notes_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefrag.web.view.notes._MOST_BYTES", 1000)
    with pytest.raises(ViewError, match="1,000 bytes"):
        RunNotes(tmp_path).write(KEY, "x" * 1000, "")
    assert not (tmp_path / NOTES_FILE).exists()


def test_a_file_that_holds_something_else_is_told_and_kept(tmp_path: Path) -> None:
    (tmp_path / NOTES_FILE).write_text("[1]")
    for act in (RunNotes(tmp_path).read, lambda: RunNotes(tmp_path).write(KEY, "x", "")):
        with pytest.raises(ViewError, match="does not hold notes"):
            act()
    assert (tmp_path / NOTES_FILE).read_text() == "[1]"


def test_a_page_writes_a_note_and_every_list_and_export_shows_it(
    server: ViewServer, known: httpx2.Client, run: Path
) -> None:
    told = known.put("/api/episode/1/note", content=body("look here"), headers=guarded(server, known))
    assert (told.status_code, told.json()) == (200, {"note": "look here"})
    assert known.get("/api/episode/1").json()["note"] == "look here"
    assert known.get("/api/episodes", params={"noted": "true"}).json()["notes"] == {"1": "look here"}
    assert "look here" in known.get("/episode/1/export").text
    assert "look here" in (run / NOTES_FILE).read_text(encoding="utf-8")
    again = known.put("/api/episode/1/note", content=body("other", "not this"), headers=guarded(server, known))
    assert again.status_code == 409


@pytest.mark.parametrize(
    "change",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": None},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"x-beliefrag-write": None},
        {"x-beliefrag-write": "wrong"},
        {"cookie": "beliefrag_view_1=none"},
    ],
)
def test_a_change_that_does_not_come_from_a_page_of_this_viewer_is_refused(
    server: ViewServer, known: httpx2.Client, run: Path, change: dict[str, str | None]
) -> None:
    headers = {name: value for name, value in (guarded(server, known) | change).items() if value is not None}
    assert known.put("/api/episode/1/note", content=body("x"), headers=headers).status_code == 403
    assert not (run / NOTES_FILE).exists()


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ("x" * 70_000, 413),
        (body("x" * (LONGEST_NOTE + 1)), 422),
        ("{}", 422),
        ("[]", 422),
        ('{"text": 1, "before": ""}', 422),
        ("\xff", 422),
        (body("x" * LONGEST_NOTE), 200),
    ],
)
def test_what_is_no_note_is_refused(server: ViewServer, known: httpx2.Client, content: str, status: int) -> None:
    told = known.put("/api/episode/1/note", content=content, headers=guarded(server, known))
    assert told.status_code == status, told.text


@pytest.mark.parametrize("path", ["/api/episode/999/note", "/api/episode/99999999999999999999/note"])
def test_a_note_needs_an_episode(server: ViewServer, known: httpx2.Client, path: str) -> None:
    assert known.put(path, content=body("x"), headers=guarded(server, known)).status_code in (404, 405)
