"""`beliefrag bench run` when it fails often, is killed, interrupted, started twice, or served badly."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from beliefrag.bench.runner import GIVE_UP_AFTER
from beliefrag.methods import METHODS
from beliefrag.runs.run_files import comparable_lines
from tests.cli.shell import Ran, command
from tests.support.bench_runs import line_of, records, served, write_dataset
from tests.support.http_server import ChatServer, completion, failure
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


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_ctrl_c_drops_what_is_under_way_and_says_how_to_go_on(home: Path, chat_server: ChatServer) -> None:
    chat_server.play(completion("Larvik"), completion("Larvik", delay=600))
    with start_slow_run(home, chat_server) as process:
        wait_for(lambda: len(chat_server.requests) == 2)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=200)
        err = process.stderr.read() if process.stderr else b""
    assert process.returncode == 130
    assert len(records(home / "run")) == 1
    assert mentions(err.decode(), "dropped", "beliefrag bench run --data north")
    assert b"Traceback" not in err


def run_of(home: Path, methods: str, *more: str, questions: int = 40) -> list[str]:
    if not (home / "north").exists():
        write_dataset(home, "north", questions)
    return ["bench", "run", "--data", "north", "--methods", methods, "--set", "concurrency=1", "--out", "run", *more]


def tried(home: Path, since: int = 0) -> list[str]:
    return [record.question.id for record in records(home / "run")[since:]]


def test_a_server_that_is_still_gone_ends_every_attempt_and_each_gets_to_other_episodes(
    beliefrag: Command, home: Path, chat_server: ChatServer
) -> None:
    chat_server.play(failure(401, "who are you"))
    line = run_of(home, "no_rag", "--no-judge", *served(chat_server))
    for attempt in range(1, 4):
        ran = beliefrag(*line)
        assert ran.code == 1
        assert mentions(ran.err, "last", GIVE_UP_AFTER, "failed"), attempt
        assert len(records(home / "run")) == attempt * GIVE_UP_AFTER
    assert len({*tried(home)[:40]}) == 40
    # All were tried before: those whose turn is longest ago come first.
    assert tried(home)[48:] == tried(home)[8:32]
    chat_server.play(completion("Oslo"))
    ran = beliefrag(*line)
    assert mentions(ran.err, "40 episodes finished", "0 failed")
