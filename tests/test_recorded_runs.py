"""Runs that an earlier version recorded: they are read, go on, and replay to the same episodes.

`tests/recorded` holds two runs of the version before the second plan on the first five questions of the demo, made on
2026-11-16 against a server that replies by a hash of the request, with the replies of their cache. `run` has all twelve
methods with the structured verifier and a judge, `injected` two methods with the probability verifier and 20 %
irrelevant passages.

Four methods do something else since then: BeliefRAG (one call corrects a query, and what is left after VERIFY is not
judged again), CRAG (each passage is graded), Adaptive-k (with its buffer) and Self-RAG* (reads a probability). Their
recorded episodes must still be read and reported; only the other methods must replay to the same episodes.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from beliefrag.cli import main
from beliefrag.demo import load_passages, load_questions
from beliefrag.methods import METHODS

RECORDED = Path(__file__).parent / "recorded"
UNCHANGED = ("no_rag", "static", "iterative", "adaptive_rag", "rl_search", "ircot", "flare", "uncertainty_gate")
"""Methods that ask and do what they did when the runs were recorded."""


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo's passages and first questions in the common form, and the replies of the recorded runs in the cache."""
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "demo_set"
    folder.mkdir()
    questions = [
        {"id": each.id, "question": each.question, "answers": each.answers, "supporting": each.supporting}
        for each in load_questions()
        if each.answers
    ]
    passages = [{"id": each.id, "title": each.title, "text": each.text} for each in load_passages()]
    for name, rows in (("questions", questions[:5]), ("corpus", passages)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    replies = tmp_path / "replies.jsonl"
    replies.write_bytes(gzip.decompress((RECORDED / "replies.jsonl.gz").read_bytes()))
    assert main(["cache", "import", str(replies)]) == 0
    return folder


def recorded(name: str, folder: Path) -> Path:
    """A copy of a recorded run."""
    folder.mkdir()
    (folder / "run.json").write_bytes((RECORDED / name / "run.json").read_bytes())
    (folder / "episodes.jsonl").write_bytes(gzip.decompress((RECORDED / name / "episodes.jsonl.gz").read_bytes()))
    return folder


def episodes(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Everything that was written about each episode, but for the clock."""
    lines = [json.loads(line) for line in (folder / "episodes.jsonl").read_text(encoding="utf-8").splitlines()]
    for each in lines:
        # What was not kept then.
        each.pop("citations", None)
        for call in each["calls"]:
            call.pop("least_token", None)
    return {(each["method"], each["question_id"]): {**each, "timing": None} for each in lines}


def replay(methods: str, dataset: Path, out: Path) -> int:
    server = ["--model", "golden", "--base-url", "http://127.0.0.1:18999/v1", "--set", "borrow=published"]
    words = ["--methods", methods, "--set", "verifier=structured", "--replay", "--yes", "--out", str(out)]
    return main(["bench", "run", "--data", str(dataset), *server, *words])


def test_a_run_of_an_earlier_version_replays_to_the_same_episodes(dataset: Path, tmp_path: Path) -> None:
    before = episodes(recorded("run", tmp_path / "before"))
    assert replay(",".join(UNCHANGED), dataset, tmp_path / "after") == 0
    assert episodes(tmp_path / "after") == {key: each for key, each in before.items() if key[0] in UNCHANGED}


def test_a_run_of_an_earlier_version_is_reported_with_all_its_methods(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = recorded("injected", tmp_path / "before")
    assert main(["bench", "report", str(folder)]) == 0
    out = capfd.readouterr().out
    assert "Complete: all 10 episodes" in out
    assert "BeliefRAG" in out and "CRAG" in out


def test_a_run_of_an_earlier_version_goes_on_with_nothing_left_to_do(
    dataset: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = recorded("run", tmp_path / "before")
    written = (folder / "episodes.jsonl").read_bytes()
    methods = json.loads((folder / "run.json").read_text("utf-8"))["methods"]
    assert replay(",".join(methods), dataset, folder) == 0
    assert (folder / "episodes.jsonl").read_bytes() == written
    assert main(["bench", "report", str(folder)]) == 0
    assert "Complete: all 60 episodes" in capfd.readouterr().out


def test_all_methods_add_to_a_run_of_an_earlier_version_only_those_that_came_later(
    dataset: Path, tmp_path: Path
) -> None:
    folder = recorded("run", tmp_path / "before")
    written = (folder / "episodes.jsonl").read_bytes()
    methods = json.loads((folder / "run.json").read_text("utf-8"))["methods"]
    # Their replies were never recorded, so a replay must say that it lacks them.
    assert replay("all", dataset, folder) == 1
    after = (folder / "episodes.jsonl").read_bytes()
    assert after.startswith(written)
    added = [json.loads(line) for line in after.removeprefix(written).splitlines()]
    assert {(each["method"], each["outcome"]) for each in added} == {
        (name, "failed") for name in METHODS if name not in methods
    }
