import dataclasses
import re
from collections import Counter

import pytest

from beliefrag.demo import DemoQuestion, load_passages, load_questions
from beliefrag.retrieval import Bm25Index
from beliefrag.types import Passage, Question

PASSAGES = {passage.id: passage for passage in load_passages()}
QUESTIONS = load_questions()
TWO_HOP = [question for question in QUESTIONS if question.kind == "two-hop"]
BRIDGES = [question for question in TWO_HOP if question.note.startswith("Bridge: ")]

each_question = pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.id)
each_two_hop = pytest.mark.parametrize("question", TWO_HOP, ids=lambda q: q.id)
each_bridge = pytest.mark.parametrize("question", BRIDGES, ids=lambda q: q.id)


def states(passage: Passage, answer: str) -> bool:
    """Whether the answer stands in the passage as whole words, so that 46 is not found in 1946."""
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", passage.text) is not None


def holders(question: DemoQuestion, answer: str) -> list[str]:
    return [id_ for id_ in question.supporting if states(PASSAGES[id_], answer)]


def test_passages_and_questions_load_through_the_package() -> None:
    assert all(type(passage) is Passage for passage in load_passages())
    assert all(type(question) is DemoQuestion for question in load_questions())


def test_ids_and_texts_are_unique() -> None:
    passages = load_passages()
    for values in (
        [p.id for p in passages],
        [p.title for p in passages],
        [p.text for p in passages],
        [q.id for q in QUESTIONS],
        [q.question for q in QUESTIONS],
    ):
        assert [value for value, count in Counter(values).items() if count > 1] == []


def test_passages_have_60_to_110_words() -> None:
    lengths = {passage.id: len(passage.text.split()) for passage in PASSAGES.values()}
    assert {id_: words for id_, words in lengths.items() if not 60 <= words <= 110} == {}


def test_kinds_are_as_many_as_the_readme_says() -> None:
    assert Counter(q.kind for q in QUESTIONS) == {"two-hop": 12, "one-hop": 2, "unanswerable": 3, "conflict": 3}
    assert len(BRIDGES) == 10
    assert len(PASSAGES) == 66


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
        assert holders(question, answer), answer


@each_two_hop
def test_the_first_hop_never_holds_the_answer(question: DemoQuestion) -> None:
    first, second = question.supporting
    for answer in question.answers:
        assert holders(question, answer) == [second], f"{answer} in {first}"


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.kind == "conflict"], ids=lambda q: q.id)
def test_one_side_of_a_conflict_is_right_and_the_note_names_it(question: DemoQuestion) -> None:
    sides = {tuple(holders(question, answer)) for answer in question.answers}
    assert len(sides) == 1
    (right,) = sides.pop()
    (wrong,) = set(question.supporting) - {right}
    assert f"True: {question.answers[0]} ({right})." in question.note
    rival = re.search(rf"{wrong} gives ([\w, ]+?),? (?:as|a figure)", question.note)
    assert rival is not None
    assert states(PASSAGES[wrong], rival[1])
    assert not states(PASSAGES[right], rival[1])


@each_bridge
def test_the_bridge_is_named_by_the_first_hop_and_not_by_the_question(question: DemoQuestion) -> None:
    first, second = (PASSAGES[id_] for id_ in question.supporting)
    assert question.note == f"Bridge: {second.title}."
    # An asteroid carries its namesake's surname only, so the last word of the title is what must be there.
    name = second.title.split()[-2:] if second.title.endswith("Museum") else second.title.split()[-1:]
    assert " ".join(name) in first.text
    assert not any(word in question.question for word in second.title.split() if word != "Museum")


def test_what_is_asked_carries_no_gold_answer() -> None:
    question = QUESTIONS[0]
    assert question.to_question() == Question(question.question, question.id)
    assert {field.name for field in dataclasses.fields(question.to_question())} == {"text", "id"}


@pytest.fixture(scope="module")
def index() -> Bm25Index:
    return Bm25Index.in_memory(PASSAGES.values())


def top_5(index: Bm25Index, query: str) -> list[str]:
    return [hit.passage.id for hit in index.search(query, 5)]


@each_bridge
def test_a_search_for_the_question_finds_the_first_hop(question: DemoQuestion, index: Bm25Index) -> None:
    assert question.supporting[0] in top_5(index, question.question)


@each_bridge
def test_a_search_that_names_the_bridge_finds_the_second_hop_first(question: DemoQuestion, index: Bm25Index) -> None:
    second = PASSAGES[question.supporting[1]]
    assert top_5(index, second.title)[0] == second.id


def test_one_search_is_not_enough_for_most_bridges(index: Bm25Index) -> None:
    found = [q.id for q in BRIDGES if q.supporting[1] in top_5(index, q.question)]
    assert QUESTIONS[0].kind == "two-hop"
    assert QUESTIONS[0].id not in found
    assert len(found) <= 2


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q not in BRIDGES and q.supporting], ids=lambda q: q.id)
def test_one_search_is_enough_where_no_bridge_is_crossed(question: DemoQuestion, index: Bm25Index) -> None:
    assert set(question.supporting) <= set(top_5(index, question.question))
