"""Wrong usage and failures: one line with a remedy, and the exit code."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.retrieval import Bm25Index
from tests.cli.shell import (
    ANSWER,
    BORROWED,
    QUESTION,
    SURE,
    Ran,
    closed_port,
    command,
    expect_one_line,
    write_docs,
    write_script,
)

Command = Callable[..., Ran]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ask",), ("QUESTION", "beliefrag ask --help")),
        (("ask", "  ", "--docs", "."), ("the question is empty",)),
        (("ask", "why", "not", "quoted"), ("'not'",)),
        (("ask", QUESTION, "--docs", ".", "--json", "--quiet"), ("--json", "--quiet")),
        (("ask", QUESTION, "--docs", ".", "--colour"), ("No such option: --colour",)),
        (("ask", QUESTION, "--docs", ".", "--set", "budget.rounds=many"), ("budget.rounds", "valid integer")),
        (("ask", QUESTION, "--docs", ".", "--set", "budget.rounds=-1"), ("rounds", "at least 0, not -1")),
        (
            ("ask", QUESTION, "--docs", ".", "--set", "budget.turns=1"),
            ("Unknown setting 'budget.turns'", "config show"),
        ),
        (("ask", QUESTION, "--docs", ".", "--set", "budget.rounds"), ("section.key=value",)),
        (("ask", QUESTION, "--docs", ".", "--config", "none.toml"), ("none.toml",)),
        (("ask", QUESTION, "--docs", ".", "--model", "scripted:none.jsonl"), ("none.jsonl",)),
        (("ask", QUESTION, "--docs", "a.md", "--model", "m", *BORROWED), ("OPENAI_API_KEY",)),
        (("serve", "http", "--docs", "x", "--set", "limits.queue=-1"), ("limits.queue", "greater than or equal to 0")),
        (("serve", "http", "--docs", "x", "--set", "limits.row=1"), ("Unknown setting 'limits.row'", "queue")),
        (("aks", QUESTION), ("No such command 'aks'", "ask")),
        (("models",), ("'model'? See",)),
    ],
)
def test_wrong_usage_exits_with_2(
    beliefrag: Command, home: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    (home / "a.md").write_text("The designer of the Fram was born in Larvik.", encoding="utf-8")
    ran = beliefrag(*arguments)
    # An episode that fails has lines of its own before the error.
    expect_one_line(Ran(ran.code, "", ran.err), 2, *words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--docs", "nowhere"), ("nowhere does not exist",)),
        (("--docs", "empty"), ("nothing to index", ".md")),
        (("--index", "docs"), ("docs", "beliefrag index")),
        (("--docs", "docs", "--model", "local:unheard"), ("unheard",)),
        (("--docs", "docs", "--model", "local:docs/fram.md"), ("fram.md is not", "(*.gguf)")),
        (("--docs", "docs", "--model", "local:qwen2.5-coder-1.5b"), ("not on this machine", "beliefrag model pull")),
    ],
)
def test_what_is_missing_exits_with_1(
    beliefrag: Command, home: Path, given: tuple[str, ...], words: tuple[str, ...]
) -> None:
    write_docs(home)
    (home / "empty").mkdir()
    expect_one_line(
        beliefrag("ask", QUESTION, "--model", write_script(home, SURE, ANSWER), *BORROWED, *given), 1, *words
    )


def test_a_dead_server_is_named_once(beliefrag: Command, home: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    given = ("ask", QUESTION, "--docs", write_docs(home), "--model", "m", "--base-url", url, *BORROWED, "--quiet")
    ran = beliefrag(*given)
    expect_one_line(ran, 1, url)
    assert ran.err.count("refused the connection") == 1


def test_neither_or_both_sources_of_passages(beliefrag: Command, home: Path) -> None:
    model = ("--model", write_script(home, SURE, ANSWER), *BORROWED)
    expect_one_line(beliefrag("ask", QUESTION, *model), 2, "none were given", "beliefrag index")
    docs = write_docs(home)
    expect_one_line(beliefrag("ask", QUESTION, "--docs", docs, "--index", docs, *model), 2, "2 were given")


def test_debug_adds_the_traceback_to_the_one_line(beliefrag: Command, home: Path) -> None:
    given = ("ask", QUESTION, "--docs", home / "nowhere", "--model", write_script(home, SURE, ANSWER), *BORROWED)
    plain, wordy = beliefrag(*given), beliefrag(*given, "--debug")
    assert "Traceback" not in plain.err
    assert "Traceback (most recent call last):" in wordy.err
    assert (wordy.code, wordy.err.splitlines()[-1]) == (plain.code, plain.err.strip())
    assert "Traceback" not in beliefrag(*given).err


def test_a_fault_of_ours_is_one_line_too(beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("this should\nnot happen")

    monkeypatch.setattr("beliefrag.prompts.Prompts.load", broken)
    expect_one_line(beliefrag("prompt"), 1, "ZeroDivisionError: this should not happen", "--debug")
    assert "Traceback" in beliefrag("--debug", "prompt").err


def test_a_cache_folder_that_cannot_be_written_to(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = home / "cache"
    # What is in the place of the database's file cannot be opened, and root is not kept from it.
    (cache / "replies.sqlite").mkdir(parents=True)
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(cache))
    beliefrag("index", write_docs(home), "--out", home / "ships")
    model = write_script(home, SURE, ANSWER)
    ran = beliefrag("ask", QUESTION, "--index", home / "ships", "--model", model, *BORROWED)
    expect_one_line(ran, 2, str(cache), "BELIEFRAG_CACHE_DIR", "--set", "cache=false")


def test_a_question_of_invalid_utf_8_is_refused(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("ask", os.fsdecode(b"Who \xff approves?"), "--docs", write_docs(home), *BORROWED)
    expect_one_line(ran, 2, "UTF-8")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("taken", ("taken is a file", "folder")),
        ("taken/below", ("taken/below cannot be written: Not a directory. A file is in the way: name a folder",)),
    ],
)
def test_an_index_where_a_file_is(beliefrag: Command, home: Path, place: str, words: tuple[str, ...]) -> None:
    (home / "taken").write_text("something else", encoding="utf-8")
    ran = beliefrag("index", write_docs(home), "--out", home / place)
    expect_one_line(ran, 1, *words)
    assert "space" not in ran.err


def test_a_read_only_cache_folder_leads_to_the_variable_that_moves_it(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = home / "cache"
    make_folder = Path.mkdir

    def refuse(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        # Root may write everywhere, so the system's refusal is played.
        if path.is_relative_to(cache):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        make_folder(path, mode, parents, exist_ok)

    docs, model = write_docs(home), write_script(home, SURE, ANSWER)
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(cache))
    monkeypatch.setattr(Path, "mkdir", refuse)
    ran = beliefrag("ask", QUESTION, "--docs", docs, "--model", model, *BORROWED, "--set", "cache=false")
    expect_one_line(ran, 1, f"{cache}/indexes/", "ermission denied. Check its permissions", "BELIEFRAG_CACHE_DIR")


def test_a_full_disk_is_told_in_one_line_and_keeps_the_index_that_was_there(beliefrag: Command, home: Path) -> None:
    index = home / "ships"
    (home / "big").mkdir()
    for number in range(20):
        rows = (" ".join(f"w{number * 997 + row * 89 + word}" for word in range(80)) for row in range(100))
        (home / "big" / f"{number}.md").write_text("\n\n".join(rows), encoding="utf-8")
    beliefrag("index", write_docs(home), "--out", index)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

    line = command("index", home / "big", "--out", index)
    done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=300, preexec_fn=limit)
    ran = Ran(done.returncode, done.stdout, done.stderr)
    expect_one_line(ran, 1, "ships cannot be written: ", "Free some space", "another disk", "again")
    assert not any(word in ran.err for word in ("thread", "writer", "panicked", "io::Error"))
    assert len(Bm25Index.open(index)) == 3
    assert beliefrag("index", home / "big", "--out", index).code == 0
    assert len(Bm25Index.open(index)) > 100
