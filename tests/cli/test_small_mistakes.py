"""Mistakes that a person makes and that a machine has: each is told in one line, with the value and what to do."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from beliefrag.events import CallStarted

from beliefrag.cli.episode_display import LineDisplay
from beliefrag.cli.output import show_status
from beliefrag.errors import CorpusError
from beliefrag.retrieval.store import explain_engine_errors
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, command, write_docs, write_script
from tests.cli.test_ask_mistakes import closed_port, expect_one_line
from tests.support.messages import mentions

Command = Callable[..., Ran]


@pytest.mark.parametrize("place", ["folder", "file"])
def test_a_cache_folder_that_cannot_be_written_to(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    cache = home / "cache"
    cache.mkdir()
    if place == "file":
        # What stands in the place of the database's file cannot be opened either, and root is not kept from it.
        (cache / "replies.sqlite").mkdir()
    else:
        monkeypatch.setattr("sqlite3.connect", _refuse)
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(cache))
    beliefrag("index", write_docs(home), "--out", home / "ships")
    model = write_script(home, SURE, ANSWER)
    ran = beliefrag("ask", QUESTION, "--index", home / "ships", "--model", model, *BORROWED)
    expect_one_line(ran, 2, str(cache), "BELIEFRAG_CACHE_DIR", "--set", "cache=false")


def _refuse(*_: object, **__: object) -> None:
    import sqlite3

    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    raise error


def test_a_dead_server_is_told_once_and_shortly(beliefrag: Command, home: Path) -> None:
    address = f"http://127.0.0.1:{closed_port()}/v1"
    ran = beliefrag("ask", QUESTION, "--docs", write_docs(home), "--model", "m", "--base-url", address, *BORROWED)
    assert ran.code == 1
    assert (ran.out + ran.err).count("refused the connection") == 1
    assert ran.err.count("\n") == 1 and address in ran.err


def test_bytes_that_are_no_text_are_refused(home: Path) -> None:
    model = write_script(home, SURE, ANSWER)
    line = [*command("ask", "Who", "--docs", write_docs(home), "--model", model, *BORROWED)]
    raw = [os.fsencode(word) for word in line]
    raw[raw.index(b"Who")] = b"Who \xff approves?"
    done = subprocess.run(raw, capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stdout == b"" and b"UTF-8" in done.stderr and done.stderr.count(b"\n") == 1


def test_a_budget_of_the_environment_names_the_variable(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELIEFRAG_BUDGET__TOP_K", "0")
    expect_one_line(beliefrag("ask", QUESTION, "--docs", "x"), 2, "BELIEFRAG_BUDGET__TOP_K", "at least 1", "not 0")


def test_an_index_where_a_file_is(beliefrag: Command, home: Path) -> None:
    (home / "taken").write_text("something else", encoding="utf-8")
    ran = beliefrag("index", write_docs(home), "--out", home / "taken")
    expect_one_line(ran, 1, "taken is a file", "folder")
    assert "space" not in ran.err


def test_weights_that_are_no_weights(beliefrag: Command, home: Path) -> None:
    (home / "model.gguf").write_text("these are words", encoding="utf-8")
    ran = beliefrag("ask", QUESTION, "--docs", write_docs(home), "--model", f"local:{home / 'model.gguf'}")
    expect_one_line(ran, 1, "model.gguf is not", "(*.gguf)")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (
            ValueError(
                'OpenWriteError(IoError { io_error: Os { code: 28, kind: StorageFull, message: "No space left on '
                'device" }, filepath: "/srv/index/.tmpx" })'
            ),
            "No space left on device",
        ),
        (ValueError("An IO error occurred: 'File too large (os error 27)'"), "File too large"),
    ],
)
def test_a_full_disk_is_told_in_the_words_of_the_system(said: Exception, words: str) -> None:
    with (
        pytest.raises(CorpusError) as caught,
        explain_engine_errors(CorpusError, "It failed", remedy="Stop."),
    ):
        raise said
    assert str(caught.value) == f"It failed: {words}. Stop."


def test_a_suggestion_has_one_mark_at_its_end(beliefrag: Command) -> None:
    expect_one_line(beliefrag("models"), 2, "'model'? See")


def test_an_index_reports_as_json(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("index", write_docs(home), "--out", home / "ships", "--json")
    report = json.loads(ran.out)
    assert (ran.code, report["files_read"], report["passages_total"], report["skipped"]) == (0, 3, 3, [])
    assert report["index"] == str(home / "ships") and len(report["fingerprint"]) == 32
    again = json.loads(beliefrag("index", "--upgrade", "--out", home / "ships", "--json").out)
    assert again == {"index": str(home / "ships"), "upgraded": False}


def test_without_a_terminal_a_silent_wait_is_broken_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefrag.cli.output._SECONDS_OF_SILENCE", 0.05)
    written = StringIO()
    with LineDisplay(written, calibration="none") as display:
        display.show(CallStarted(step=0, at=0.0, purpose="answer"))
        time.sleep(0.4)
    lines = written.getvalue().splitlines()
    assert len(lines) >= 3 and all(mentions(line, "model", "answer,") for line in lines)


def test_opening_says_what_it_does_when_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("beliefrag.cli.output._SECONDS_OF_SILENCE", 0.05)
    with show_status("opening index and model"):
        time.sleep(0.3)
    assert capsys.readouterr().err.startswith("opening index and model, 0 s\n")
