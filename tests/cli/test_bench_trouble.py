"""`beliefrag bench run` when it is killed, interrupted, started twice, or served badly."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.bench import setup
from beliefrag.cli import bench as bench_commands
from beliefrag.methods import METHODS
from beliefrag.runs.record import versions
from beliefrag.runs.run_files import comparable_lines
from tests.cli.shell import Ran, command, in_shell
from tests.support.bench_runs import VERDICT, line_of, records, served, write_dataset
from tests.support.http_server import ChatServer, Request, Response, completion, failure
from tests.support.messages import mentions

Command = Callable[..., Ran]


def test_two_processes_cannot_run_one_run(beliefrag: Command, home: Path) -> None:
    from beliefrag.runs.run_files import EpisodeLog

    line = line_of(home, "--methods", "static")
    with EpisodeLog(home / "run"):
        ran = beliefrag(*line)
    assert ran.code == 1
    assert "One process" in ran.err


def meanwhile(monkeypatch: pytest.MonkeyPatch, *line: str) -> None:
    """Has another process run a command while a person is asked whether to run ours, and then says yes."""

    def may_call(calls: int, *, replay: bool) -> bool:
        return in_shell(*line).code == 0

    monkeypatch.setattr(bench_commands, "may_call", may_call)


@pytest.mark.parametrize("begun", [False, True])
def test_what_another_process_added_to_a_run_meanwhile_stays_in_its_record(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    if begun:
        assert beliefrag(*line_of(home, "--methods", "static", "--n", "1")).code == 0
    meanwhile(monkeypatch, *line_of(home, "--methods", "no_rag", "--n", "3"))
    ran = beliefrag(*line_of(home, "--methods", "static", "--n", "2"))
    assert ran.code == 0, ran.err
    run = json.loads((home / "run" / "run.json").read_text())
    assert sorted(run["methods"]) == ["no_rag", "static"]
    assert len(run["datasets"]["north"]["question_ids"]) == 3
    assert len(records(home / "run")) == 10


def test_episodes_without_a_record_are_not_gone_on_with(beliefrag: Command, home: Path) -> None:
    line = line_of(home, "--methods", "static")
    assert beliefrag(*line).code == 0
    (home / "run" / "run.json").unlink()
    before = (home / "run" / "episodes.jsonl").read_bytes()
    ran = beliefrag(*line)
    assert ran.code == 1
    assert mentions(ran.err, "no run.json", "--out")
    assert (home / "run" / "episodes.jsonl").read_bytes() == before
    assert not (home / "run" / "run.json").exists()
    # A kill between the lock and the record leaves a file without episodes: that is no run yet.
    (home / "run" / "episodes.jsonl").write_bytes(b"")
    assert beliefrag(*line).code == 0


def test_a_run_that_goes_on_with_another_build_says_so_and_reports_both(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "other versions"
    assert said not in beliefrag(*line_of(home, "--methods", "static", "--n", "2")).err
    ours = versions()
    monkeypatch.setattr(setup, "versions", lambda: {**ours, "xllamacpp": "99.1"})
    ran = beliefrag(*line_of(home, "--methods", "static"))
    assert ran.code == 0
    assert mentions(ran.err, said, f"xllamacpp {ours['xllamacpp']}, now 99.1")
    run = json.loads((home / "run" / "run.json").read_text())
    assert (run["versions"], run["later_versions"]) == (ours, [{**ours, "xllamacpp": "99.1"}])
    beliefrag("bench", "report", "run")
    page = (home / "run" / "report" / "report.md").read_text()
    assert f"xllamacpp {ours['xllamacpp']}" in page and "xllamacpp 99.1" in page
    # Nothing is left to be made with anything.
    monkeypatch.setattr(setup, "versions", lambda: {**ours, "xllamacpp": "99.2"})
    assert said not in beliefrag(*line_of(home, "--methods", "static")).err
    assert json.loads((home / "run" / "run.json").read_text()) == run


def test_killed_at_any_moment_and_resumed_equals_the_uninterrupted_run(home: Path, beliefrag: Command) -> None:
    line = line_of(home, "--methods", "all", questions=6)
    assert beliefrag(*line).code == 0
    whole = comparable_lines(home / "run")
    # A cache of its own: the killed run must not be helped by the whole one's replies.
    environment = {**os.environ, "BELIEFRAG_CACHE_DIR": str(home / "cache-of-the-killed")}
    line[line.index("--out") + 1] = "killed"
    chance = random.Random(20261115)
    file = home / "killed" / "episodes.jsonl"
    kills = 0
    for _ in range(6):
        process = subprocess.Popen(command(*line), stderr=subprocess.PIPE, env=environment)
        reached = len(file.read_bytes().splitlines()) if file.exists() else 0
        goal = reached + chance.randrange(0, 25)
        while process.poll() is None and (len(file.read_bytes().splitlines()) if file.exists() else 0) <= goal:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.01)
        kills += process.poll() is None
        process.kill()
        process.communicate()
    assert kills >= 4, "it was over before it was killed often enough to mean something"
    done = subprocess.run(command(*line), capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert comparable_lines(home / "killed") == whole
    keys = [(r.dataset, r.method, r.question.id) for r in records(home / "killed")]
    assert len(keys) == len(set(keys)) == 2 * 6 * len(METHODS)


def start_slow_run(home: Path, server: ChatServer) -> subprocess.Popen[bytes]:
    write_dataset(home, "north", 6)
    line = ["bench", "run", "--data", "north", "--methods", "no_rag", "--no-judge", *served(server), "--out", "run"]
    return subprocess.Popen(command(*line, "--set", "concurrency=1"), stderr=subprocess.PIPE)


def read_notice(process: subprocess.Popen[bytes], words: bytes) -> bytes:
    """Reads standard error up to the line with these words: what the process says is how far it has come."""
    said = b""
    for line in process.stderr or ():
        said += line
        if words in line:
            break
    return said


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_ctrl_c_finishes_what_is_under_way_and_says_how_to_go_on(home: Path, chat_server: ChatServer) -> None:
    released = threading.Event()

    def reply_late(_: object) -> Response:
        released.wait()
        return completion("Larvik")

    chat_server.play(completion("Larvik"), reply_late)
    with start_slow_run(home, chat_server) as process:
        wait_for(lambda: len(chat_server.requests) == 2)
        process.send_signal(signal.SIGINT)
        err = read_notice(process, b"Ctrl-C again")
        released.set()
        err += process.stderr.read() if process.stderr else b""
    assert process.returncode == 130
    assert len(records(home / "run")) == 2, "what was under way was lost"
    assert mentions(err.decode(), "2 episodes finished", "0 failed", "4 left", "beliefrag bench run --data north")
    assert b"Traceback" not in err


def test_a_second_ctrl_c_drops_what_is_under_way(home: Path, chat_server: ChatServer) -> None:
    chat_server.play(completion("Larvik"), completion("Larvik", delay=600))
    with start_slow_run(home, chat_server) as process:
        wait_for(lambda: len(chat_server.requests) == 2)
        process.send_signal(signal.SIGINT)
        err = read_notice(process, b"Ctrl-C again")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.wait(timeout=200)
        err += process.stderr.read() if process.stderr else b""
    assert process.returncode == 130
    assert len(records(home / "run")) == 1
    assert mentions(err.decode(), "dropped", "beliefrag bench run --data north")
    assert b"Traceback" not in err


class Troubled:
    """A server that answers by what it is asked, and fails three requests in ten, each time in another way."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._chance = random.Random(5)
        self._lock = threading.Lock()
        self.failures = 0

    def __call__(self, request: Request) -> Response:
        with self._lock:
            fails = self._chance.random() < self._share
            kind = self.failures % 6
            self.failures += fails
        if fails:
            return (
                failure(500, "broken"),
                failure(429, "slow down", retry_after="0"),
                Response(close=True),
                completion("Larvik", cut=20),
                completion(""),
                Response(b"<html>gateway</html>", 502, content_type="text/html"),
            )[kind]
        return self._reply(request)

    def _reply(self, request: Request) -> Response:
        said = " ".join(message["content"] for message in request.body["messages"])
        place = "Larvik" if "north0 born" in said else "Oslo"
        if "response_format" in request.body:
            text = json.dumps(VERDICT)
        elif "Reply with one letter, A, B or C" in said:
            text = "C"
        elif "Must something more be looked up" in said:
            text = "yes"
        elif "Next sentence:" in said:
            text = f"So the answer is: {place}."
        elif "<answer>" in said:
            text = f"<answer>{place}</answer>"
        else:
            text = place
        token = {"token": text, "logprob": -0.1, "top_logprobs": [{"token": text, "logprob": -0.1}]}
        return completion(text, logprobs={"content": [token]} if request.body.get("logprobs") else None)


def test_a_failing_server_changes_no_metric(beliefrag: Command, home: Path, chat_server: ChatServer) -> None:
    write_dataset(home, "north", 4)
    line = ["bench", "run", "--data", "north", "--methods", "all", "--no-judge", *served(chat_server)]
    line += ["--set", "cache=false"]
    chat_server.play(Troubled(0.0))
    assert beliefrag(*line, "--out", "calm", "--set", "concurrency=8").code == 0
    trouble = Troubled(0.3)
    chat_server.play(trouble)
    ran = beliefrag(*line, "--out", "rough", "--set", "concurrency=8")
    assert trouble.failures > 20
    calm = {(r.method, r.question.id): r for r in records(home / "calm")}
    rough = {(r.method, r.question.id): r for r in records(home / "rough")}
    assert rough.keys() == calm.keys()
    assert {method for method, _ in calm} == set(METHODS)
    failed = [record for record in rough.values() if record.outcome == "failed"]
    # Nearly every call gets its reply in the end; where one does not, a whole episode must not become a number.
    assert len(failed) <= len(rough) // 10
    assert all(record.error and record.error.message for record in failed)
    retried = 0
    for key, record in rough.items():
        if record.outcome == "failed":
            assert record.metrics == {}
            continue
        assert record.metrics == calm[key].metrics
        assert record.answer == calm[key].answer
        for name in ("calls", "tokens", "tokens_in", "tokens_out"):
            assert getattr(record.usage, name) == getattr(calm[key].usage, name)
        retried += record.usage.retries
    assert retried > 10
    assert ran.code == (1 if failed else 0)
