"""`beliefrag serve http` as a process: starting, refusing to start, and ending cleanly."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, command, write_docs, write_script
from tests.support.http_server import ChatServer, completion
from tests.support.messages import mentions

Command = Callable[..., Ran]
SURE_REPLY = json.dumps(SURE["reply"])


class Process:
    """A server in a process of its own, with what it has logged so far."""

    def __init__(self, *arguments: str | Path) -> None:
        words = command("serve", "http", "--port", "0", *arguments)
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = ""

    def wait_until_it_listens(self) -> None:
        give_up = time.monotonic() + 60
        while not any('"listening"' in line for line in self.log):
            assert self.process.poll() is None and time.monotonic() < give_up, self.log
            time.sleep(0.02)
        self.url = json.loads(self.log[-1])["address"]

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(iter(self.process.stderr.readline, ""))

    def ask(self, **headers: str) -> httpx2.Response:
        return httpx2.post(f"{self.url}/v1/ask", json={"question": QUESTION}, headers=headers, timeout=60)

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and standard output."""
        code = self.process.wait(timeout=200)
        self._reader.join(timeout=200)
        assert self.process.stdout is not None and self.process.stderr is not None
        out = "" if self.process.stdout.closed else self.process.stdout.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, out


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., Process]]:
    running: list[Process] = []

    def begin(*arguments: str | Path) -> Process:
        process = Process("--docs", write_docs(home), *BORROWED, *arguments)
        running.append(process)
        process.wait_until_it_listens()
        return process

    yield begin
    for each in running:
        each.process.kill()
        each.end()


def test_documents_are_served_until_sigterm(home: Path, start: Callable[..., Process]) -> None:
    model = write_script(home, SURE | {"repeat": True}, ANSWER | {"repeat": True})
    server = start("--model", model)
    assert server.ask().json()["answer"] == "Larvik"
    server.process.terminate()
    assert server.end() == (0, "")
    assert [json.loads(line)["event"] for line in server.log] == ["listening", "request", "shutting down"]


def test_a_token_from_the_environment_is_asked_for_and_never_shown(
    home: Path, start: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "t0ken-that-is-secret"
    monkeypatch.setenv("BELIEFRAG_TOKEN", token)
    server = start("--model", write_script(home, SURE, ANSWER), "--host", "0.0.0.0")
    server.url = server.url.replace("0.0.0.0", "127.0.0.1")
    assert server.ask().status_code == 401
    assert server.ask(Authorization=f"Bearer {token}").json()["answer"] == "Larvik"
    server.process.terminate()
    assert server.end()[0] == 0
    assert token not in "".join(server.log)
    assert all(json.loads(line)["level"] == "info" for line in server.log), "the variable is known"


def later(work: Callable[[], httpx2.Response]) -> tuple[threading.Thread, list[httpx2.Response]]:
    replies: list[httpx2.Response] = []
    thread = threading.Thread(target=lambda: replies.append(work()), daemon=True)
    thread.start()
    return thread, replies


def wait_until_asked(model: ChatServer) -> None:
    give_up = time.monotonic() + 60
    while not model.requests:
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_a_question_under_way_is_finished_and_new_ones_are_not_taken(
    start: Callable[..., Process], chat_server: ChatServer
) -> None:
    chat_server.play(completion(SURE_REPLY, delay=1.5), completion("Larvik"))
    server = start("--model", "m", "--base-url", chat_server.url)
    thread, replies = later(server.ask)
    wait_until_asked(chat_server)
    server.process.terminate()
    while "shutting down" not in "".join(server.log):
        time.sleep(0.02)
    with pytest.raises(httpx2.TransportError):
        server.ask()
    thread.join(timeout=200)
    assert replies[0].json()["answer"] == "Larvik"
    assert server.end()[0] == 0


def test_it_refuses_to_be_reached_by_others_without_a_token(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("serve", "http", "--docs", write_docs(home), "--host", "0.0.0.0")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    for part in ("0.0.0.0", "BELIEFRAG_TOKEN", "--token-file", "127.0.0.1"):
        assert part in ran.err


def test_a_taken_port_is_told_before_anything_is_read(beliefrag: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = beliefrag("serve", "http", "--docs", "nowhere", "--port", str(port))
    assert ran.code == 2
    assert mentions(ran.err, "error", "127.0.0.1", port, "Address already in use", "--host", "--port")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "source of passages"),
        (("--docs", "nowhere"), "nowhere"),
        (("--docs", ".", "--otel-text"), "it needs --otel"),
        (("--docs", ".", "--token-file", "none"), "none cannot be read"),
        (("--docs", ".", "--set", "limits.timeout=0"), "limits.timeout"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    beliefrag: Command, home: Path, arguments: tuple[Any, ...], words: str
) -> None:
    model = write_script(home, SURE, ANSWER)
    ran = beliefrag("serve", "http", "--port", "0", "--model", model, *BORROWED, *arguments)
    assert ran.code in (1, 2) and ran.out == ""
    assert words in ran.err and ran.err.count("\n") == 1
