"""`beliefrag bench run` where much fails: what fails every time blocks nothing, and a server that is gone ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.bench.runner import GIVE_UP_AFTER, CircuitBreaker
from tests.cli.shell import Ran
from tests.support.bench_runs import records, served, write_dataset, write_script
from tests.support.http_server import ChatServer, completion, failure
from tests.support.messages import mentions

Command = Callable[..., Ran]


def without_probabilities(home: Path) -> str:
    """A model on which FLARE and the gate fail, every time."""
    lines = [{"purpose": "draft", "reply": "Oslo it is."}, {"purpose": "gate", "reply": "Oslo"}]
    return write_script(home, *({**line, "repeat": True} for line in lines))


def run_of(home: Path, methods: str, *more: str, questions: int = 40) -> list[str]:
    if not (home / "north").exists():
        write_dataset(home, "north", questions)
    return ["bench", "run", "--data", "north", "--methods", methods, "--set", "concurrency=1", "--out", "run", *more]


def killed_after(home: Path, lines: int) -> None:
    """Leaves of a run what a kill at that moment would have left."""
    file = home / "run" / "episodes.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:lines]))


def outcomes(home: Path) -> Counter[tuple[str, str | None]]:
    latest = {(r.method, r.question.id): r.outcome for r in records(home / "run")}
    return Counter((method, outcome) for (method, _), outcome in latest.items())


def tried(home: Path, since: int = 0) -> list[str]:
    return [record.question.id for record in records(home / "run")[since:]]


def test_a_run_with_many_failures_goes_on_to_what_was_never_tried(beliefrag: Command, home: Path) -> None:
    line = run_of(home, "no_rag,flare", "--no-judge", "--model", without_probabilities(home))
    assert mentions(beliefrag(*line).err, "40 episodes finished", "40 failed")
    killed_after(home, 60)
    assert outcomes(home) == {("no_rag", "answered"): 30, ("flare", "failed"): 30}
    ran = beliefrag(*line)
    assert ran.code == 1
    assert mentions(ran.err, "10 episodes finished", "40 failed", "same command")
    assert outcomes(home) == {("no_rag", "answered"): 40, ("flare", "failed"): 40}
    # With nothing else left they are all tried once more, and are still no reason to give up.
    ran = beliefrag(*line)
    assert mentions(ran.err, "0 episodes finished", "40 failed", "same command")


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


@pytest.mark.parametrize(
    ("cause", "before", "replies", "alive", "counts"),
    [
        ("ModelError", "", 1, True, True),
        ("ModelError", "UnreadableReply", 1, True, True),
        ("ModelError", "ModelError", 1, False, False),
        ("ModelError", "ModelError", 0, True, False),
        ("ModelError", "ModelError", 0, False, True),
        ("TransportError", "TransportError", 1, True, True),
    ],
)
def test_a_failure_that_is_no_news_does_not_count(
    cause: str, before: str, replies: int, alive: bool, counts: bool
) -> None:
    breaker = CircuitBreaker()
    if alive:
        breaker.record_success()
    for _ in range(GIVE_UP_AFTER):
        assert not breaker.is_open
        breaker.record_failure(cause, before=before, replies=replies)
    assert breaker.is_open is counts
