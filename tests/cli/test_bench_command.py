"""`beliefrag bench run`: every method through the front door, resumable, replayable, and honest about what failed."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.methods import METHODS
from beliefrag.record import QUESTION
from beliefrag.runs.run_files import comparable_lines
from tests.cli.shell import Ran, on_terminal
from tests.support.bench_runs import line_of, records, write_dataset
from tests.support.messages import mentions

Command = Callable[..., Ran]


def test_every_method_runs_once_and_replays_without_a_model(beliefrag: Command, home: Path) -> None:
    line = line_of(home, "--methods", "all")
    ran = beliefrag(*line)
    assert (ran.code, ran.out) == (0, ""), ran.err
    found = records(home / "run")
    keys = [(r.dataset, r.method, r.question.id, r.seed) for r in found]
    asked = [(d, f"{d}-q{k}") for d in ("north", "south") for k in range(4)]
    assert sorted(keys) == sorted((d, m, q, 0) for (d, q), m in itertools.product(asked, METHODS))
    assert {r.outcome for r in found} <= {"answered", "stopped", "abstained"}
    static = {r.question.id: r for r in found if r.method == "static"}
    assert static["north-q0"].metrics == {
        "exact_match": 1.0,
        "f1": 1.0,
        "cover": 1.0,
        "evidence_recall": 1.0,
        "answer_row_recall": None,
        "judge": 1.0,
        "rounds": 1,
        "actions": 2,
    }
    assert static["north-q1"].metrics["f1"] == pytest.approx(2 / 3)
    assert static["north-q1"].metrics["judge"] == 0.0
    assert static["north-q2"].metrics["f1"] == 0.0
    written = (home / "run" / "episodes.jsonl").read_text() + (home / "run" / "run.json").read_text()
    assert not any(words in written for words in ("Where was the builder", "was built by", "was born in"))
    queries = [step.search.query for each in found for step in each.steps if step.search and step.search.query]
    assert QUESTION in queries
    # If the query writer repeats itself, the search is for the question with a title; a mark replaces the question.
    assert any(query.startswith("[question] ") for query in queries)
    again = [*line, "--replay"]
    again[again.index("--out") + 1] = "again"
    ran = beliefrag(*again)
    assert ran.code == 0
    assert "0 keys are missing" in ran.err
    assert comparable_lines(home / "again") == comparable_lines(home / "run")
    assert all(r.usage.cached_calls == r.usage.calls for r in records(home / "again"))


def test_the_judge_is_never_in_a_methods_cost_and_may_come_later(beliefrag: Command, home: Path) -> None:
    beliefrag(*line_of(home, "--methods", "static", "--no-judge"))
    # One method may be named as in other commands.
    beliefrag(*line_of(home, "--method", "static", out="judged"))
    plain, judged = ({r.question.id: r for r in records(home / out)} for out in ("run", "judged"))
    for question_id, record in judged.items():
        assert record.usage.tokens == plain[question_id].usage.tokens
        assert set(record.usage.by_purpose) == {"answer"}
        assert record.verdict is not None and record.verdict.usage.calls == 1
        assert plain[question_id].verdict is None
        assert plain[question_id].metrics["judge"] is None
    assert mentions(beliefrag(*line_of(home, "--methods", "static")).err, "not judged yet: 8")
    assert comparable_lines(home / "run") == comparable_lines(home / "judged")


def test_a_judge_that_fails_leaves_the_episode_and_is_asked_again(beliefrag: Command, home: Path) -> None:
    judge = home / "judge.jsonl"
    judge.write_text('{"purpose": "judge", "reply": "perhaps", "repeat": true}\n')
    line = line_of(home, "--methods", "static", "--set", f"run.judge_model=scripted:{judge}")
    ran = beliefrag(*line)
    assert ran.code == 1
    assert mentions(ran.err, "8 episodes finished", "0 failed", "8 could not", "judged")
    assert "last error: " in ran.err
    first = records(home / "run")[0]
    assert first.metrics["judge"] is None
    assert first.metrics["f1"] is not None
    assert first.judge_failure == "UnreadableReply"
    assert first.verdict is not None and first.verdict.usage.calls == 2
    said = beliefrag("bench", "report", "run").out.splitlines()[0]
    assert said.startswith("INCOMPLETE: 8 ") and "not judged" in said
    ran = beliefrag(*line)
    assert mentions(ran.err, "done before: 0", "failed and tried again: 0", "not judged yet: 8")
    judge.write_text('{"purpose": "judge", "reply": "yes", "repeat": true}\n')
    ran = beliefrag(*line)
    assert re.search(r"judge scripted:\w+,.* scripted:\w+", ran.err)


def test_a_finished_run_asks_and_writes_nothing_more(beliefrag: Command, home: Path) -> None:
    line = line_of(home, "--methods", "static,no_rag")
    beliefrag(*line)
    before = (home / "run" / "episodes.jsonl").read_bytes(), (home / "run" / "run.json").read_bytes()
    # One part of a run: of the rest the command knows nothing.
    ran = beliefrag(*line_of(home, "--methods", "static", "--n", "2"))
    *_, end, hint = ran.err.splitlines()
    assert mentions(end, "0 episodes finished", "0 failed", "done") and hint.endswith("beliefrag bench report run")
    ran = beliefrag(*line)
    assert ran.code == 0
    assert "done before: 16" in ran.err
    assert ((home / "run" / "episodes.jsonl").read_bytes(), (home / "run" / "run.json").read_bytes()) == before


def test_a_run_can_grow_by_methods_and_questions(beliefrag: Command, home: Path) -> None:
    beliefrag(*line_of(home, "--methods", "static", "--n", "2"))
    beliefrag(*line_of(home, "--methods", "no_rag", "--n", "3"))
    beliefrag(*line_of(home, "--methods", "static,no_rag", "--n", "3"))
    found = [(r.method, r.question.id) for r in records(home / "run")]
    assert len(found) == len(set(found)) == 12
    run = json.loads((home / "run" / "run.json").read_text())
    assert run["methods"] == ["static", "no_rag"]
    assert len(run["datasets"]["north"]["question_ids"]) == 3


@pytest.mark.parametrize("change", ["corpus", "prompts", "seed"])
def test_a_run_does_not_go_on_as_something_else(beliefrag: Command, home: Path, change: str) -> None:
    line = line_of(home, "--methods", "static")
    assert beliefrag(*line).code == 0
    before = (home / "run" / "episodes.jsonl").read_bytes()
    if change == "corpus":
        with (home / "south" / "corpus.jsonl").open("a") as file:
            file.write('{"id": "new", "title": "New", "text": "New text."}\n')
        words = r"corpus of south [0-9a-f]{32},.* [0-9a-f]{32}"
    elif change == "prompts":
        (home / "words").mkdir()
        (home / "words" / "answer.txt").write_text("{question} {evidence}")
        line += ["--set", "prompts=words"]
        words = r"prompt answer [0-9a-f]{16},.* [0-9a-f]{16}"
    else:
        line += ["--set", "run.seed=7"]
        words = r"seed 0,.* 7"
    ran = beliefrag(*line)
    assert ran.code == 1
    assert re.search(rf"{words}\. .*--out", ran.err), ran.err
    assert (home / "run" / "episodes.jsonl").read_bytes() == before


def test_a_dry_run_tells_what_is_ahead_and_leaves_nothing(beliefrag: Command, home: Path) -> None:
    ran = beliefrag(*line_of(home, "--methods", "static,no_rag", "--dry-run"))
    assert ran.code == 0
    assert mentions(ran.err, "episodes: 16", "questions: 8", "datasets: 2", "methods: 2")
    assert re.search(r"estimate .*typical.*: 16 calls, [\d,]+ tokens in, [\d,]+ out, ", ran.err)
    assert re.search(r"^judge: 16 calls, [\d,]+ tokens in, ", ran.err, re.MULTILINE)
    assert not (home / "run").exists()


def test_a_large_run_is_asked_about_on_a_terminal(home: Path) -> None:
    line = line_of(home, "--methods", "all", questions=10)
    write_dataset(home, "wide", 400)
    line.insert(line.index("south"), "wide")
    code, screen = on_terminal(*line, typed="n\n")
    assert code == 0
    assert "Run it?" in screen
    assert "nothing was run" in screen
    assert not (home / "run").exists()


def test_a_folder_of_something_else_is_not_written_to(beliefrag: Command, home: Path) -> None:
    (home / "thesis").mkdir()
    (home / "thesis" / "chapter.tex").write_text("...")
    ran = beliefrag(*line_of(home, "--methods", "static", out="thesis"))
    assert ran.code == 1
    assert "holds no run" in ran.err
    assert [path.name for path in (home / "thesis").iterdir()] == ["chapter.tex"]
