"""False answers are of the kind of the true one, and stand where the true one stood."""

from __future__ import annotations

import pytest

from beliefrag.bench.perturbation import FalseAnswers, answer_kind, false_passage_ids
from beliefrag.bench.questions import Gold, LabelledQuestion
from beliefrag.types import Passage, Question


def asked(key: str, *answers: str, **more: object) -> LabelledQuestion:
    return LabelledQuestion(Question(f"{key}?", key), Gold(answers, **more))  # type: ignore[arg-type]


QUESTIONS = [
    asked("born", "Larvik", "Larvik, Norway"),
    asked("died", "Bergen"),
    asked("who", "Colin Archer"),
    asked("captain", "Otto Sverdrup"),
    asked("year", "1892"),
    asked("launched", "1905"),
    asked("day", "26 October 1892"),
    asked("when", "June 24, 1893"),
    asked("crew", "13"),
    asked("masts", "three"),
    asked("afloat", "yes"),
    asked("rows", "a", "b", is_set=True),
]
MADE = FalseAnswers(QUESTIONS, (), seed=0)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("26 October 1892", "date"),
        ("1893-06-24", "date"),
        ("May 4", "date"),
        ("1892", "year"),
        ("13", "number"),
        ("$1,500", "number"),
        ("3 million", "number"),
        ("three", "number"),
        ("Colin Archer", "name"),
        ("May", "name"),
        ("the Fram", "name"),
        ("It is not possible to go there by sea.", "words"),
        ("medical", "words"),
        ("Yes", None),
        ("...", None),
    ],
)
def test_the_kind_of_an_answer_is_told_by_its_look(answer: str, kind: str | None) -> None:
    assert answer_kind(answer) == kind


@pytest.mark.parametrize(
    ("key", "false"),
    [
        ("year", "1905"),
        ("day", "June 24, 1893"),
        ("crew", "three"),
        ("who", "Otto Sverdrup"),
        ("died", "Larvik"),
    ],
)
def test_a_false_answer_is_of_the_same_kind_and_another_questions(key: str, false: str) -> None:
    question = next(question for question in QUESTIONS if question.id == key)
    falsehood = MADE.find_falsehood(question)
    assert falsehood is not None
    assert falsehood.answer == false


def test_yes_and_no_and_sets_have_no_falsehood() -> None:
    assert MADE.find_falsehood(QUESTIONS[-2]) is None
    assert MADE.find_falsehood(QUESTIONS[-1]) is None


def test_an_answer_with_no_other_of_its_kind_has_none_either() -> None:
    alone = [asked("year", "1892"), asked("who", "Archer"), asked("also", "Colin Archer")]
    made = FalseAnswers(alone, (), seed=0)
    assert made.find_falsehood(alone[0]) is None
    # One answer within another is no falsehood about it.
    assert made.find_falsehood(alone[1]) is None


def test_every_spelling_of_the_truth_gives_way_and_nothing_else_does() -> None:
    falsehood = MADE.find_falsehood(QUESTIONS[0])
    assert falsehood is not None
    passage = Passage("p1", "Larvik", "He left LARVIK, Norway for Larviksund; Larvik  missed him.", "notes.md")
    version = falsehood.version(passage)
    assert version is not None
    assert version.title == "Bergen"
    assert version.text == "He left Bergen for Larviksund; Bergen  missed him."
    assert version.source == "notes.md"
    assert falsehood.version(Passage("p2", "", "Larviksund is elsewhere.")) is None


def test_a_dataset_that_brings_false_passages_has_its_own_used() -> None:
    gold = {"fake_answer": "Skien", "supporting": ("r1", "r2"), "labels": {"positive_wrong_ids": ["w1", "w2"]}}
    question = asked("born", "Larvik", **gold)
    passages = [Passage(key, "", f"text of {key}") for key in ("r1", "r2", "w1", "w2", "n1")]
    falsehood = FalseAnswers([question, *QUESTIONS[1:]], passages, seed=0).find_falsehood(question)
    assert falsehood is not None
    assert falsehood.answer == "Skien"
    assert [falsehood.version(passage) for passage in passages] == [passages[2], passages[3], None, None, None]
    assert falsehood.passages == (passages[2], passages[3])
    assert false_passage_ids([question]) == {"w1", "w2"}


def test_false_passages_that_do_not_pair_up_leave_their_answer_to_be_written_over() -> None:
    question = asked(
        "born", "Larvik", fake_answer="Skien", supporting=("r1",), labels={"positive_wrong_ids": ["w", "v"]}
    )
    falsehood = FalseAnswers([question], (), seed=0).find_falsehood(question)
    assert falsehood is not None
    version = falsehood.version(Passage("any", "", "Born in Larvik."))
    assert version is not None
    assert version.text == "Born in Skien."
