"""Being stopped: by Ctrl-C, by a closed pipe, by the system, by kill -9."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from beliefrag.models.cache import ReplyStore
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, command, without_progress, write_docs, write_script
from tests.support.http_server import ChatServer, completion

SURE_REPLY = json.dumps(SURE["reply"])


def ask(home: Path, server: ChatServer, *more: str) -> list[str]:
    docs = write_docs(home) if not (home / "docs").exists() else home / "docs"
    return command("ask", QUESTION, "--docs", docs, "--model", "m", "--base-url", server.url, *BORROWED, *more)


def wait_until_asked(server: ChatServer, times: int, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + 120
    while len(server.requests) < times:
        assert process.poll() is None, "it ended before it asked"
        assert time.monotonic() < give_up
        time.sleep(0.02)


def read_terminal(terminal: int, chunks: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # Linux reports the end of a terminal as an error
        while chunk := os.read(terminal, 65536):
            chunks.append(chunk)


def test_ctrl_c_ends_with_one_line_and_130_and_hangs_up(home: Path, chat_server: ChatServer) -> None:
    chat_server.play(completion(SURE_REPLY, delay=600))
    process = subprocess.Popen(ask(home, chat_server), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until_asked(chat_server, 1, process)
    process.send_signal(signal.SIGINT)
    # Long for a busy machine, and much less than the reply takes.
    _, err = process.communicate(timeout=200)
    assert process.returncode == 130
    assert without_progress(err.decode()) == "interrupted\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_terminal_is_restored(home: Path, chat_server: ChatServer, number: int, code: int) -> None:
    chat_server.play(completion(SURE_REPLY, delay=600))
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color"}
    line = ask(home, chat_server)
    process = subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    chunks: list[bytes] = []
    # An unread terminal fills up and blocks the program, so it is read from the beginning.
    reader = threading.Thread(target=read_terminal, args=(ours, chunks))
    reader.start()
    wait_until_asked(chat_server, 1, process)
    while b"asking the model" not in b"".join(chunks) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(200) == code
    reader.join(200)
    os.close(ours)
    screen = b"".join(chunks)
    cursor = re.findall(rb"\x1b\[\?25[lh]", screen)
    assert cursor[0] == b"\x1b[?25l", "the display never began"
    assert cursor[-1] == b"\x1b[?25h", "the cursor stays hidden"
    assert b"asking the model what the evidence is worth" in screen
    assert b"Traceback" not in screen


@pytest.mark.parametrize("arguments", [("ask",), ("config", "show")])
def test_a_closed_pipe_is_silent(home: Path, arguments: tuple[str, ...]) -> None:
    line = command(*arguments)
    if arguments[0] == "ask":
        model = write_script(home, SURE, ANSWER)
        line += [QUESTION, "--docs", str(write_docs(home)), "--model", model, *BORROWED]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=200)
    assert without_progress(err.decode()) == ""


def test_output_that_cannot_be_written_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_quietly = ("ask", QUESTION, "--docs", write_docs(home), "--model", write_script(home, SURE, ANSWER), *BORROWED)
    for unbuffered, arguments in (("", ("config", "show")), ("1", (*ask_quietly, "-q"))):
        monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(command(*arguments), check=False, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1
        said = without_progress(done.stderr)
        assert said.startswith("error: ") and said.endswith("No space left on device.\n")
        assert said.count("\n") == 1


def test_kill_9_leaves_trace_and_replies_and_nothing_is_paid_for_twice(home: Path, chat_server: ChatServer) -> None:
    chat_server.play(completion(SURE_REPLY), completion("Larvik", delay=600))
    first = ask(home, chat_server, "--trace", "killed.jsonl", "--json")
    process = subprocess.Popen(first, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until_asked(chat_server, 2, process)
    process.kill()
    process.wait(200)

    records = [json.loads(line) for line in (home / "killed.jsonl").read_text().splitlines()]
    assert [record.get("action") for record in records] == [None, "RETRIEVE"]
    with ReplyStore(home.parent / "cache" / "replies.sqlite", read_only=True) as store:
        assert [kept.reply.text for kept in store] == [SURE_REPLY]

    chat_server.play(completion("Larvik"))
    second = subprocess.run(ask(home, chat_server, "--json"), check=False, capture_output=True, text=True)
    assert second.returncode == 0
    record = json.loads(second.stdout)
    assert record["answer"] == "Larvik"
    assert (record["usage"]["calls"], record["usage"]["cached_calls"]) == (2, 1)
    assert len(chat_server.requests) == 3
