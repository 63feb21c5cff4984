"""`beliefrag view`: an address, a page behind it, and Ctrl-C as the way out."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, command, write_docs, write_script

Command = Callable[..., Ran]


@pytest.fixture
def trace(beliefrag: Command, home: Path) -> Path:
    asking = ("ask", QUESTION, "--docs", write_docs(home), "--model", write_script(home, SURE, ANSWER), *BORROWED)
    assert beliefrag(*asking, "--trace", "trace.jsonl").code == 0
    return home / "trace.jsonl"


@contextlib.contextmanager
def serving(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], httpx2.Client]]:
    """Return a command that serves a page, and a browser that has opened it."""
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("view: "))
        found = re.fullmatch(r"view: (http://127\.0\.0\.1:\d+)(/\?token=\S+)\n", line)
        assert found, line
        with httpx2.Client(base_url=found[1], trust_env=False, timeout=60) as browser:
            assert browser.get(found[2]).status_code == 303
            yield process, browser
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    assert any(words in line for line in process.stderr)


def test_a_trace_is_served_until_ctrl_c_which_is_no_failure(trace: Path) -> None:
    with serving("view", trace, "--no-open") as (process, browser):
        assert browser.get("/api/about").json() == {"kind": "trace", "name": "trace.jsonl"}
        assert browser.get("/api/episode/0").json()["record"]["answer"] == "Larvik"
        wait_for(process, "until Ctrl-C")
        process.send_signal(signal.SIGINT)
        assert process.wait(200) == 0
        with pytest.raises(httpx2.ConnectError):
            browser.get("/api/about")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere",), "nowhere does not exist"),
        (("docs",), "docs holds no run"),
        (("docs/fram.md",), "docs/fram.md .*trace.*ask --trace"),
        (("trace.jsonl", "docs"), "'docs'"),
        (("trace.jsonl", "--questions", "asked.csv"), "--questions and --docs"),
    ],
)
def test_what_cannot_be_viewed_is_told_in_one_line(
    beliefrag: Command, trace: Path, arguments: tuple[str, ...], told: str
) -> None:
    ran = beliefrag("view", *arguments)
    assert ran.code in (1, 2)
    assert re.search(told, ran.err)
    assert ran.err.count("\n") == 1
