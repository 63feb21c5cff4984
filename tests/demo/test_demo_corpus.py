import re

import pytest

from beliefrag.demo import DemoQuestion, load_passages, load_questions
from beliefrag.retrieval import Bm25Index
from beliefrag.types import Passage

PASSAGES = {passage.id: passage for passage in load_passages()}
QUESTIONS = load_questions()
BRIDGES = [question for question in QUESTIONS if question.note.startswith("Bridge: ")]

each_question = pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.id)


def states(passage: Passage, answer: str) -> bool:
    """Return whether the answer stands in the passage as whole words, so that 46 is not found in 1946."""
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", passage.text) is not None


@each_question
def test_supporting_passages_exist_and_their_number_fits_the_kind(question: DemoQuestion) -> None:
    expected = {"two-hop": 2, "one-hop": 1, "unanswerable": 0, "conflict": 2}[question.kind]
    assert len(set(question.supporting)) == len(question.supporting) == expected
    assert set(question.supporting) <= PASSAGES.keys()


@each_question
def test_every_answer_is_short_and_stands_in_a_supporting_passage(question: DemoQuestion) -> None:
    assert bool(question.answers) == (question.kind != "unanswerable")
    for answer in question.answers:
        assert 1 <= len(answer.split()) <= 4
        assert any(states(PASSAGES[id_], answer) for id_ in question.supporting), answer


@pytest.fixture(scope="module")
def index() -> Bm25Index:
    return Bm25Index.in_memory(PASSAGES.values())


def top_5(index: Bm25Index, query: str) -> list[str]:
    return [hit.passage.id for hit in index.search(query, 5)]


def test_one_search_is_not_enough_for_most_bridges(index: Bm25Index) -> None:
    found = [q.id for q in BRIDGES if q.supporting[1] in top_5(index, q.question)]
    assert QUESTIONS[0].kind == "two-hop"
    assert QUESTIONS[0].id not in found
    assert len(found) <= 2


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q not in BRIDGES and q.supporting], ids=lambda q: q.id)
def test_one_search_is_enough_where_no_bridge_is_crossed(question: DemoQuestion, index: Bm25Index) -> None:
    assert set(question.supporting) <= set(top_5(index, question.question))
