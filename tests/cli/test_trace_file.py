"""What `beliefrag ask` writes: the steps of --trace as they happen, the cache, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, write_docs, write_script

Command = Callable[..., Ran]


@pytest.fixture
def ask(home: Path) -> tuple[object, ...]:
    model = write_script(home, SURE | {"repeat": True}, ANSWER | {"repeat": True})
    return ("ask", QUESTION, "--docs", write_docs(home), "--model", model, *BORROWED, "--quiet")


def test_the_trace_holds_every_event_from_start_to_finish(
    beliefrag: Command, ask: tuple[object, ...], home: Path
) -> None:
    assert beliefrag(*ask, "--trace", home / "trace.jsonl").out == "Larvik\n"
    first, *steps, last = [json.loads(line) for line in (home / "trace.jsonl").read_text(encoding="ascii").splitlines()]
    assert (first["outcome"], first["steps"]) == (None, [])
    assert [step["action"] for step in steps] == ["RETRIEVE", "ANSWER"]
    assert steps[-1]["calls"][0]["reply"].startswith("{")
    assert last["answer"] == "Larvik" and last["steps"] == steps


def test_a_place_that_cannot_be_written_is_told_before_anything_is_paid_for(
    beliefrag: Command, ask: tuple[object, ...], home: Path
) -> None:
    for place, why in (("no/folder.jsonl", "No such file"), ("docs/fram.md", "exists already")):
        ran = beliefrag(*ask, "--trace", home / place)
        assert ran.code == 2
        assert why in ran.err
    assert not (home.parent / "cache" / "replies.sqlite").exists()


def test_a_question_that_never_began_leaves_no_empty_trace(beliefrag: Command, home: Path) -> None:
    model = write_script(home, SURE, ANSWER)
    ran = beliefrag("ask", QUESTION, "--docs", home / "nowhere", "--model", model, *BORROWED, "--trace", home / "t")
    assert ran.code == 1
    assert not (home / "t").exists()


def test_nothing_is_written_but_the_cache_and_what_was_named(beliefrag: Callable[..., Ran], home: Path) -> None:
    root = home.parent
    docs, model = write_docs(home), write_script(home, SURE, ANSWER)

    def outside() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in root.rglob("*") if not path.is_relative_to(root / "cache")}

    before = outside()
    given = ("ask", QUESTION, "--docs", docs, "--model", model, *BORROWED)
    for arguments in (
        ("--help",),
        given,
        (*given, "--json"),
        ("demo", "--list"),
        ("demo", "--model", model, *BORROWED),
        ("doctor", "--model", model, *BORROWED),
        ("config", "show"),
        ("prompt",),
        ("model", "pull"),
    ):
        assert beliefrag(*arguments).code in (0, 1), arguments
    assert outside() == before
    assert beliefrag(*given, "--trace", "named.jsonl").code == 0
    assert beliefrag("index", docs, "--out", "named.index").code == 0
    new = {path.relative_to(home).parts[0] for path in outside().keys() - before.keys()}
    assert new == {"named.jsonl", "named.index"}
