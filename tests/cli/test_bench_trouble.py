"""`beliefrag bench run` when it is killed, interrupted, started twice, or served badly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from beliefrag.methods import METHODS
from beliefrag.runs.run_files import comparable_lines
from tests.cli.shell import Ran, command
from tests.support.bench_runs import line_of, records, served, write_dataset
from tests.support.http_server import ChatServer, Response, completion
from tests.support.messages import mentions

Command = Callable[..., Ran]


def test_two_processes_cannot_run_one_run(beliefrag: Command, home: Path) -> None:
    from beliefrag.runs.run_files import EpisodeLog

    line = line_of(home, "--methods", "static")
    with EpisodeLog(home / "run"):
        ran = beliefrag(*line)
    assert ran.code == 1
    assert "One process" in ran.err


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
    for _ in range(3):
        process = subprocess.Popen(command(*line), stderr=subprocess.PIPE, env=environment)
        reached = len(file.read_bytes().splitlines()) if file.exists() else 0
        goal = reached + chance.randrange(0, 25)
        while process.poll() is None and (len(file.read_bytes().splitlines()) if file.exists() else 0) <= goal:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.01)
        kills += process.poll() is None
        process.kill()
        process.communicate()
    assert kills >= 2, "it was over before it was killed often enough to mean something"
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
