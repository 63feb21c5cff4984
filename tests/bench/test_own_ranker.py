"""A ranker is fitted on one's own questions, saved, and used by linked retrieval."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag.bench.own_ranker import MOST_WITH_ANSWER, fit_own_ranker, needed_passages
from beliefrag.bench.questions import Card, Dataset, Gold, LabelledQuestion
from beliefrag.errors import CalibrationError
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.types import Passage, Question

PEOPLE = 60


def _dataset(count: int = PEOPLE) -> Dataset:
    passages, questions = [], []
    for number in range(PEOPLE):
        person, town = f"Person{number} Alpha{number}", f"Town{number}"
        passages += [
            Passage(f"book{number}", f"Book{number} Story", f"Book{number} Story was written by {person} in winter."),
            Passage(f"person{number}", person, f"{person} is a writer. The writer was born in {town} and lived there."),
            Passage(
                f"noise{number}", f"Noise{number}", f"Winter stories number {number} were born and written by many."
            ),
        ]
        question = Question(f"Where was the writer of Book{number} Story born?", f"q{number}")
        supporting = (f"book{number}", f"person{number}")
        questions.append(LabelledQuestion(question, Gold((town,), supporting=supporting)))
    return Dataset("towns", tuple(questions[:count]), tuple(passages), Card(name="towns"))


def test_an_own_ranker_finds_both_ends_on_held_out_questions_and_can_be_used(tmp_path: Path) -> None:
    dataset = _dataset()
    fitted = fit_own_ranker(dataset)

    assert fitted.left_out == 0
    assert set(fitted.found) == {"bm25", "shipped", "own"}
    assert fitted.found["own"].value >= 0.9
    assert fitted.found["own"].questions == PEOPLE - fitted.questions
    path = tmp_path / "own.npz"
    fitted.ranker.save(path)
    retriever = open_retriever(
        RETRIEVERS.choose(f"linked:ranker={path}", {}), PassageSource(passages=list(dataset.passages))
    )
    hits = retriever.search("Where was the writer of Book7 Story born?", 2)
    assert {hit.passage.id for hit in hits} == {"book7", "person7"}


def test_few_questions_are_refused_with_their_number() -> None:
    with pytest.raises(CalibrationError, match="needs 30"):
        fit_own_ranker(_dataset(10))


def test_needed_passages_come_from_answers_where_none_are_named() -> None:
    passages = [Passage(f"p{number}", "", f"the colour is {'blue' if number else 'red'}") for number in range(10)]
    questions = [LabelledQuestion(Question("Which?", answer), Gold((answer,))) for answer in ("red", "blue", "green")]

    needed = needed_passages(questions, passages)

    assert needed["red"] == {"p0"}
    assert needed["blue"] == frozenset(), f"an answer in more than {MOST_WITH_ANSWER} passages says nothing"
    assert needed["green"] == frozenset()
