"""`beliefrag ask` without a question: a prompt on a terminal that keeps the model open."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, command, write_docs, write_script
from tests.support.http_server import ChatServer, completion
from tests.support.messages import mentions

REPLIES = (SURE | {"repeat": True}, ANSWER | {"repeat": True})
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Terminal:
    """A command on a terminal, to which a test types and whose screen it reads."""

    def __init__(self, *arguments: str | Path) -> None:
        self._ours, theirs = pty.openpty()
        env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
        self.process = subprocess.Popen(
            command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
        )
        os.close(theirs)
        self._screen = ""

    def shows(self, words: str, seconds: float) -> bool:
        """Read until the words are there, and return whether they came."""
        give_up = time.monotonic() + seconds
        while words not in _ESCAPES.sub("", self._screen):
            if time.monotonic() > give_up:
                return False
            if select.select([self._ours], [], [], 0.2)[0]:
                self._screen += os.read(self._ours, 65536).decode(errors="replace")
        return True

    def wait_for(self, words: str, seconds: float = 200) -> str:
        """Read until the words are there, and return everything up to them; what follows is left for later."""
        assert self.shows(words, seconds), f"{words!r} never came: {self._screen!r}"
        read, _, rest = _ESCAPES.sub("", self._screen).partition(words)
        self._screen = rest
        return read + words

    def type(self, text: str | bytes) -> None:
        os.write(self._ours, text.encode() if isinstance(text, str) else text)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=200)
        os.close(self._ours)


@pytest.fixture
def open_prompt(home: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*more: str | Path) -> Terminal:
        docs = home / "docs"
        given = ("--docs", docs if docs.exists() else write_docs(home), *BORROWED)
        model = () if "--model" in more else ("--model", write_script(home, *REPLIES))
        opened.append(Terminal("ask", *given, *model, *more))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def test_questions_follow_each_other_and_the_last_one_can_be_asked_about(
    home: Path, open_prompt: Callable[..., Terminal]
) -> None:
    (write_docs(home) / "odd.md").write_text(
        "# Fram\n\nThe designer of the Fram was born \x1b]0;owned\x07 here.\n", encoding="utf-8"
    )
    terminal = open_prompt()
    terminal.wait_for("/help lists the commands.")
    terminal.wait_for("ask> ")
    terminal.type("/why\n")
    terminal.wait_for("Nothing was asked yet.")
    terminal.type(f"{QUESTION}\n")
    terminal.wait_for("Larvik")
    terminal.wait_for("ask> ")
    terminal.type("/sources\n")
    sources = terminal.wait_for("ask> ")
    assert "Colin Archer was born in Larvik." in sources
    assert "owned" in sources and "\x1b]0" not in sources
    terminal.type("/why\n")
    why = terminal.wait_for("ask> ")
    assert "1.  search: not answerable yet" in why
    assert QUESTION in why
    assert re.search(r"Stopped: the question can be answered now; \d+% likely right.*\.", why)
    assert "What would change it: a document" in why
    assert not re.search(r"answerability|conflict|retrieve", why)
    terminal.type("Who designed the polar ship Fram?\n")
    terminal.wait_for("Larvik")
    terminal.wait_for("ask> ")
    terminal.type("/nonsense\n")
    terminal.wait_for("unknown command '/nonsense'; /help")
    terminal.type("/help\n")
    terminal.wait_for("/quit")
    terminal.wait_for("ask> ")
    terminal.type("/quit\n")
    assert terminal.process.wait(timeout=200) == 0


def press_ctrl_c_until(terminal: Terminal, words: str) -> None:
    """Press Ctrl-C, and again where it went unnoticed: Python looks for it only while it waits for the next key."""
    for _ in range(10):
        os.killpg(terminal.process.pid, signal.SIGINT)
        if terminal.shows(words, 5.0):
            break
    terminal.wait_for(words, 0.0)


def test_ctrl_c_stops_a_question_and_the_prompt_goes_on(
    open_prompt: Callable[..., Terminal], chat_server: ChatServer
) -> None:
    sure = json.dumps(SURE["reply"])
    chat_server.play(completion(sure, delay=60), completion(sure), completion("Larvik"))
    terminal = open_prompt("--quiet", "--model", "m", "--base-url", chat_server.url)
    terminal.wait_for("ask> ")
    terminal.type("A slow question about the Fram\n")
    give_up = time.monotonic() + 60
    while not chat_server.requests:
        assert time.monotonic() < give_up, "the model was never asked"
        time.sleep(0.05)
    os.killpg(terminal.process.pid, signal.SIGINT)
    terminal.wait_for("stopped")
    terminal.wait_for("ask> ")
    terminal.type(f"{QUESTION}\n")
    terminal.wait_for("Larvik")
    terminal.wait_for("ask> ")
    terminal.type("half a line")
    terminal.wait_for("half a line")
    press_ctrl_c_until(terminal, "ask> ")
    terminal.type("\x04")
    assert terminal.process.wait(timeout=200) == 0


@pytest.mark.parametrize("encoding", ["utf-8:surrogateescape", "utf-8:strict"])
def test_bytes_that_are_no_text_are_refused_and_the_prompt_asks_again(
    open_prompt: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    terminal = open_prompt("--quiet")
    terminal.wait_for("ask> ")
    terminal.type(b"Who \xff approves travel?\n")
    assert "Larvik" not in terminal.wait_for("use UTF-8.")
    terminal.wait_for("ask> ")
    terminal.type("/why\n")
    terminal.wait_for("Nothing was asked yet.")
    terminal.type(f"{QUESTION}\n")
    terminal.wait_for("Larvik")


def test_without_a_terminal_a_question_is_needed(home: Path, beliefrag: Callable[..., Ran]) -> None:
    docs = write_docs(home)
    model = ("--model", write_script(home, *REPLIES), *BORROWED)
    ran = beliefrag("ask", "--docs", docs, *model)
    assert ran.code == 2
    assert mentions(ran.err, "QUESTION", "terminal")
    ran = beliefrag("ask", "--docs", docs / "fram.md", docs / "archer.md", *model)
    assert mentions(ran.err, "QUESTION", "terminal")
    assert beliefrag("ask", "--docs", docs, "--json", *model).err.count("--json needs a question") == 1


def test_a_follow_up_is_understood_until_the_questions_are_cleared(
    home: Path, open_prompt: Callable[..., Terminal]
) -> None:
    rewrite = {"purpose": "standalone", "match": "Larvik", "reply": QUESTION, "repeat": True}
    terminal = open_prompt("--model", write_script(home, *REPLIES, rewrite))
    terminal.wait_for("ask> ")
    terminal.type(f"{QUESTION}\n")
    terminal.wait_for("Larvik")
    terminal.wait_for("ask> ")
    terminal.type("Where is it?\n")
    terminal.wait_for(f"Understood as: {QUESTION}")
    terminal.wait_for("ask> ")
    terminal.type("/clear\n")
    terminal.wait_for("ask> ")
    terminal.type("Where is it?\n")
    terminal.wait_for("refer to? Ask again and name it.")
    terminal.wait_for("ask> ")
    terminal.type("/where type=pdf\n")
    terminal.wait_for("ask> ")
    terminal.type(f"{QUESTION}\n")
    terminal.wait_for("no passage matches")
    terminal.wait_for("ask> ")
    terminal.type("/quit\n")
