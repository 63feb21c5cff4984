"""The benchmark of the manuals: what counts as right, what holds a quote, and that it goes on where it ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import manuals
from tests.support.messages import mentions

PAGE = "The tower of Graz is 28 m high and has four clocks that show the hours."
QUESTIONS = [
    {
        "id": "q1",
        "question": "How high is the tower of Graz?",
        "answers": ["28 m"],
        "kind": "single",
        "supporting": [{"file": "towns/graz.txt", "quote": "The tower of Graz is 28 m high and has four clocks"}],
    },
    {"id": "q2", "question": "Who built the tower of Linz?", "answers": [], "kind": "unanswerable", "supporting": []},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    documents = tmp_path / "set" / "documents" / "towns"
    documents.mkdir(parents=True)
    (documents / "graz.txt").write_text(PAGE, encoding="utf-8")
    lines = "".join(json.dumps(row) + "\n" for row in QUESTIONS)
    (tmp_path / "set" / "questions.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "replies.jsonl").write_text('{"purpose": "answer", "reply": "28 m", "repeat": true}\n', "utf-8")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str) -> None:
    given = ["--data", str(folder / "set"), "--method", "static", "--model", f"scripted:{folder / 'replies.jsonl'}"]
    monkeypatch.setattr(sys, "argv", ["manuals", *given, "--out", str(folder / "out.jsonl"), *words])
    manuals.main()


def test_it_counts_right_answers_answered_refusals_and_citations(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, folder)
    out = capsys.readouterr().out
    about = ("unanswerable", "single-hop", "citations", "two-hop")
    refused, single, cited, two_hop = (next(line for line in out.splitlines() if word in line) for word in about)
    assert mentions(refused, "1 of 1")
    assert mentions(single, "1 of 1", "1.00", "0.21-1.00")
    assert mentions(cited, "1 of 1")
    assert mentions(two_hop, "none")


def test_what_is_kept_has_judgements_and_no_texts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, folder, "--json", str(folder / "kept.json"))
    kept = json.loads((folder / "kept.json").read_text())["out"]["answers"]
    assert [(row["id"], row["right"], row["cites_every_quote"]) for row in kept] == [
        ("q1", True, True),
        ("q2", False, False),
    ]
    assert "tower" not in json.dumps(kept) and "28 m" not in json.dumps(kept)


def test_an_answer_is_right_as_a_run_of_words_however_it_is_spaced() -> None:
    question = {"answers": ["64MB"]}
    assert manuals.is_right("64 MB", question) and manuals.is_right("It is 64MB.", question)
    assert not manuals.is_right("640MB", question) and not manuals.is_right(None, question)


def test_a_quote_is_held_by_its_larger_part_in_its_own_file() -> None:
    quote = {"file": "a/graz.txt", "quote": "one two three four five six seven eight nine ten"}
    assert manuals.holds_quote([("x/graz.txt", "zero one two three four five six end")], quote)
    assert not manuals.holds_quote([("x/graz.txt", "one two three four five, and then six")], quote)
    assert not manuals.holds_quote([("x/linz.txt", quote["quote"])], quote)
