"""What peers came to: scores, the table, and the file without texts."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beliefrag.bench import Run
from beliefrag.record import Episode, Failure
from beliefrag.record import Outcome as EpisodeOutcome
from beliefrag.types import Question, Usage
from benchmarks.peers import __main__ as peers
from benchmarks.peers.results import Outcome, Report, score_method, score_peer


def _outcome(system: str, number: int, f1: float, **more: Any) -> Outcome:
    plain = Outcome(system, "hotpotqa", f"q{number}", f1, f1, 100, 1, 1, 2.0, 1.5, None)
    return replace(plain, **more)


def test_a_line_of_a_peer_is_scored_and_a_failure_keeps_only_its_kind() -> None:
    line = {
        "peer": "p",
        "dataset": "musique",
        "question_id": "1",
        "tokens": 9,
        "calls": 2,
        "searches": 1,
        "seconds": 3.5,
        "processor_seconds": 2.5,
    }
    right = score_peer({**line, "answer": "It was Colin Archer"}, ["Colin Archer", "Archer"])
    assert right == Outcome("p", "musique", "1", 0.666667, 1.0, 9, 2, 1, 3.5, 2.5, None)
    before = {name: value for name, value in line.items() if name != "processor_seconds"}
    assert score_peer({**before, "answer": "Archer"}, ["Archer"]).processor_seconds is None
    failed = score_peer({**line, "error": "GraphRecursionError: Recursion limit of 25: stop"}, ["Archer"])
    assert (failed.f1, failed.cover, failed.error) == (0.0, 0.0, "GraphRecursionError")


def _episode() -> Episode:
    return Episode(
        dataset="musique",
        method="lean",
        question=Question("", "1"),
        outcome=EpisodeOutcome.ANSWERED,
        answer="Archer",
        metrics={"f1": 0.5, "cover": 1.0},
        usage=Usage(calls=2, tokens_in=90, tokens_out=10, searches=1),
        seconds=5.04,
    )


def test_the_seconds_of_an_episode_from_the_cache_are_unknown() -> None:
    episode = _episode()
    assert score_method(episode) == Outcome("lean", "musique", "1", 0.5, 1.0, 100, 2, 1, 5.0, None, None)
    cached = episode.model_copy(update={"usage": replace(episode.usage, cached_calls=1)})
    assert score_method(cached).seconds is None
    error = Failure(cause="ModelError", message="secret")
    failed = score_method(episode.model_copy(update={"outcome": EpisodeOutcome.FAILED, "metrics": {}, "error": error}))
    assert (failed.f1, failed.error) == (0.0, "ModelError")


def test_the_table_has_means_failures_and_the_paired_difference() -> None:
    outcomes = [
        *(_outcome("peer", number, 0.0, searches=0) for number in range(4)),
        _outcome("peer", 4, 0.0, error="BadRequestError", seconds=12.0),
        *(_outcome("lean", number, 1.0, seconds=None, processor_seconds=None) for number in range(5)),
    ]
    _, _, theirs, ours = Report({"peer": "A peer"}, outcomes).table().splitlines()
    assert theirs.startswith("| A peer | 5 | 0.000 | 0.000 | +1.000 (+1.000 to +1.000) | 100 | 1.0 | 0.2 |")
    assert theirs.endswith("| 2.0 | 4.0 | 1.5 | 1.5 | 1 |"), "median and mean of both kinds of seconds"
    assert ours == "| lean | 5 | 1.000 | 1.000 | - | 100 | 1.0 | 1.0 | - | - | - | - | 0 |"


def test_the_report_writes_outcomes_without_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {
        "peer": "langgraph_agentic",
        "dataset": "musique",
        "question_id": "7",
        "answer": "Colin Archer, a shipwright",
        "tokens": 250,
        "calls": 1,
        "searches": 0,
        "seconds": 4.5,
        "processor_seconds": 4.0,
    }
    (tmp_path / "peers.jsonl").write_text(json.dumps(line) + "\n")
    known = {"7": {"question": "Who designed the Fram?", "answers": ["Archer"]}}
    monkeypatch.setattr(peers, "read_questions", lambda name: known if name == "musique" else {})
    monkeypatch.setattr(Run, "open", lambda folder: SimpleNamespace(episodes=lambda: iter(())))
    written = tmp_path / "peers.json"
    arguments = ["report", str(tmp_path / "peers.jsonl"), "--like", str(tmp_path), "--json", str(written)]
    monkeypatch.setattr(sys, "argv", ["peers", *arguments])
    peers.main()
    assert "| LangGraph, agentic RAG of its documentation | 1 | 0.500 | 1.000 |" in capsys.readouterr().out
    text = written.read_text()
    assert "Archer" not in text
    assert "Fram" not in text
    assert json.loads(text)["outcomes"] == [
        {
            "system": "langgraph_agentic",
            "dataset": "musique",
            "question_id": "7",
            "f1": 0.5,
            "cover": 1.0,
            "tokens": 250,
            "calls": 1,
            "searches": 0,
            "seconds": 4.5,
            "processor_seconds": 4.0,
            "error": None,
        }
    ]
