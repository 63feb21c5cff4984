"""`beliefrag app` as a process, and what becomes of the feedback that they keep."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, command, write_docs, write_script

REPLIES = (
    SURE | {"repeat": True},
    ANSWER | {"repeat": True},
    {"purpose": "query_writer", "reply": "SUFFICIENT", "repeat": True},
)


@dataclass
class Started:
    """A process with a page, and a client that has followed the address that it printed."""

    process: subprocess.Popen[str]
    client: httpx2.Client
    address: str


@contextlib.contextmanager
def started(*arguments: str | Path) -> Iterator[Started]:
    process = subprocess.Popen(command(*arguments, "--port", "0"), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        lines: list[str] = []
        while not (found := re.search(r"http://[^\"\s]+/\?token=[^\"\s]+", lines[-1] if lines else "")):
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        address = found[0]
        base = address.partition("/?")[0]
        with httpx2.Client(base_url=base, headers={"Origin": base}, timeout=200, trust_env=False) as client:
            assert client.get(address.removeprefix(base)).status_code == 303
            yield Started(process, client, address)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=200)


@pytest.fixture
def given(home: Path) -> list[str | Path]:
    return ["--docs", write_docs(home), "--model", write_script(home, *REPLIES), *BORROWED]


def give_feedback(running: Started, verdict: str, right_answer: str = "", question: str = QUESTION) -> None:
    answer = running.client.post("/v1/ask", json={"question": question}).json()
    body = {"id": answer["id"], "verdict": verdict, "right_answer": right_answer}
    assert running.client.post("/page/feedback", json=body).status_code == 200


def test_the_app_answers_keeps_feedback_here_and_ends_well(home: Path, given: list[str | Path]) -> None:
    with started("app", *given, "--no-open") as running:
        about = running.client.get("/page/about").json()
        assert about["name"] == "docs"
        assert about["passages"] == 3
        assert about["feedback"] == "feedback.jsonl"
        assert httpx2.get(running.address.replace("token=", "token=x")).status_code == 403
        give_feedback(running, "right")
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(timeout=200) == 0
    label = json.loads((home / "feedback.jsonl").read_text(encoding="ascii"))
    assert label["question"] == QUESTION
    assert label["answers"] == ["Larvik"]


def test_what_cannot_work_is_told_before_documents_are_read(
    home: Path, given: list[str | Path], beliefrag: Callable[..., Ran]
) -> None:
    ran = beliefrag("app", *given, "--feedback", home / "nowhere" / "said.jsonl")
    assert ran.code == 2
    assert "--feedback" in ran.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = beliefrag("app", *given, "--port", str(taken.getsockname()[1]))
    assert ran.code == 2
    assert "--port" in ran.err
