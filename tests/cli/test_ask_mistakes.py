"""What a person is told who asks wrongly: one line that says what to do, and the right exit code."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, write_docs, write_script

Command = Callable[..., Ran]


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def expect_one_line(ran: Ran, code: int, *words: str) -> None:
    assert ran.code == code
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    for word in words:
        assert word in ran.err


def test_documents_that_are_not_there(beliefrag: Command, home: Path) -> None:
    model = write_script(home, SURE, ANSWER)
    ran = beliefrag("ask", QUESTION, "--docs", home / "nowhere", "--model", model, *BORROWED)
    expect_one_line(ran, 1, "nowhere does not exist")


def test_a_folder_without_documents(beliefrag: Command, home: Path) -> None:
    (home / "empty").mkdir()
    model = write_script(home, SURE, ANSWER)
    ran = beliefrag("ask", QUESTION, "--docs", home / "empty", "--model", model, *BORROWED)
    expect_one_line(ran, 1, "nothing to index", ".md")


def test_an_index_that_is_none(beliefrag: Command, home: Path) -> None:
    docs = write_docs(home)
    ran = beliefrag("ask", QUESTION, "--index", docs, "--model", write_script(home, SURE, ANSWER), *BORROWED)
    expect_one_line(ran, 1, "docs", "beliefrag index")


@pytest.mark.parametrize("name", ["local:nobody", "local:/nowhere/at-all.gguf"])
def test_a_model_that_nobody_knows(beliefrag: Command, home: Path, name: str) -> None:
    ran = beliefrag("ask", QUESTION, "--docs", write_docs(home), "--model", name)
    expect_one_line(ran, 1, name.removeprefix("local:"))


def test_the_default_model_before_it_was_pulled(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("ask", QUESTION, "--docs", write_docs(home))
    expect_one_line(ran, 1, "not on this machine", "beliefrag model pull")


def test_a_server_that_is_not_there(beliefrag: Command, home: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    given = ("ask", QUESTION, "--docs", write_docs(home), "--model", "m", "--base-url", url, *BORROWED, "--quiet")
    expect_one_line(beliefrag(*given), 1, url)


def test_a_hosted_model_without_a_key_is_a_wrong_setting(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("ask", QUESTION, "--docs", write_docs(home), "--model", "m", *BORROWED, "--quiet")
    expect_one_line(ran, 2, "OPENAI_API_KEY")


def test_neither_or_both_sources_of_passages(beliefrag: Command, home: Path) -> None:
    model = ("--model", write_script(home, SURE, ANSWER), *BORROWED)
    expect_one_line(beliefrag("ask", QUESTION, *model), 2, "none were given", "beliefrag index")
    docs = write_docs(home)
    expect_one_line(beliefrag("ask", QUESTION, "--docs", docs, "--index", docs, *model), 2, "2 were given")


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
        (("ask", QUESTION, "--docs", ".", "--config", "none.toml"), ("none.toml",)),
        (("ask", QUESTION, "--docs", ".", "--model", "scripted:none.jsonl"), ("none.jsonl",)),
        (("aks", QUESTION), ("No such command 'aks'", "ask")),
    ],
)
def test_wrong_usage_exits_with_2(beliefrag: Command, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    expect_one_line(beliefrag(*arguments), 2, *words)


def test_debug_adds_the_traceback_to_the_one_line(beliefrag: Command, home: Path) -> None:
    given = ("ask", QUESTION, "--docs", home / "nowhere", "--model", write_script(home, SURE, ANSWER), *BORROWED)
    plain, wordy = beliefrag(*given), beliefrag(*given, "--debug")
    assert "Traceback" not in plain.err
    assert "Traceback (most recent call last):" in wordy.err
    assert wordy.code == plain.code
    assert wordy.err.splitlines()[-1] == plain.err.strip()
    assert "Traceback" not in beliefrag(*given).err


def test_a_fault_of_ours_is_one_line_too(beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beliefrag import prompts

    def broken(*_: object) -> None:
        raise ZeroDivisionError("this should\nnot happen")

    monkeypatch.setattr(prompts.Prompts, "load", broken)
    expect_one_line(beliefrag("prompt"), 1, "ZeroDivisionError: this should not happen", "--debug")
    assert "Traceback" in beliefrag("--debug", "prompt").err
