"""`beliefrag demo`: a first look, also where the weights are not here yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from beliefrag.demo import load_questions
from beliefrag.models.weights import CATALOGUE, DEFAULT
from tests.cli.shell import BORROWED, SURE, Ran, write_script

Command = Callable[..., Ran]


def model(home: Path, answer: str, verdict: dict[str, Any] = SURE) -> tuple[str, ...]:
    return ("--model", write_script(home, verdict, {"purpose": "answer", "reply": answer}), *BORROWED)


def test_the_first_question_is_answered_with_the_belief_at_each_step(beliefrag: Command, home: Path) -> None:
    first = load_questions()[0]
    ran = beliefrag("demo", *model(home, "Larvik"))
    assert ran.code == 0
    assert f"question: {first.question}" in ran.out
    assert (ran.out.count("nothing has been read"), ran.out.count("what is needed")) == (1, 1)
    given, expected, note = ran.out.splitlines()[-3:]
    assert given.split(maxsplit=1) == ["given", "Larvik"]
    assert expected.split(maxsplit=1) == ["expected", " or ".join(first.answers)]
    assert note.split(maxsplit=1) == ["note", first.note]


def test_every_question_can_be_listed_and_chosen(beliefrag: Command, home: Path) -> None:
    questions = load_questions()
    rows = [line.split("\t") for line in beliefrag("demo", "--list").out.splitlines()[1:]]
    assert [row[2] for row in rows] == [question.question for question in questions]
    number = next(n for n, question in enumerate(questions, start=1) if question.kind == "unanswerable")
    ran = beliefrag("demo", "--question", str(number), *model(home, "12"))
    assert f"question: {questions[number - 1].question}" in ran.out
    assert "expected     no answer" in ran.out
    for outside in ("0", str(len(questions) + 1), "two"):
        assert beliefrag("demo", "--question", outside).code == 2


def test_without_weights_a_script_is_told_what_to_run(beliefrag: Command, home: Path) -> None:
    weights = next(each for each in CATALOGUE if each.name == DEFAULT)
    ran = beliefrag("demo")
    assert (ran.code, ran.out) == (1, "")
    assert "1.12 GB" in ran.err
    assert weights.licence in ran.err
    assert weights.hub is not None
    assert weights.hub.repository in ran.err
    assert weights.parts[0].package in ran.err
    last = ran.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert f"beliefrag model pull {DEFAULT}" in last
    assert "beliefrag demo --yes" in last
    assert not (home.parent / "cache").exists()
