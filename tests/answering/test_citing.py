"""Which sentences an answer is said to rest on, and in which order."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from beliefrag.answering.citing import MOST_CITATIONS, choose_citations, find_nearest
from beliefrag.types import CitationRole, Passage

FILM = Passage(
    "film",
    "The Red Lantern",
    "The Red Lantern is a film of 1961. It was directed by Anna Kolb. It won two prizes.",
    "films.pdf",
    "page 3",
)
DIRECTOR = Passage(
    "director", "Anna Kolb", "Anna Kolb was a director. She was born in Graz. She died in 1990.", "people.csv", "row 7"
)
OTHER = Passage("other", "Graz", "Graz is a city in Austria. It has a clock tower.", "cities.md")


def test_the_bridge_comes_before_the_sentence_that_holds_the_answer() -> None:
    question = "Where was the director of The Red Lantern born?"
    found = choose_citations(question, "Graz", [OTHER, DIRECTOR, FILM])
    assert [(one.passage_id, one.role) for one in found] == [
        ("film", CitationRole.LINK),
        ("director", CitationRole.ANSWER),
    ]
    assert "directed by Anna Kolb" in found[0].quote and "born in Graz" in found[1].quote
    assert [(one.source, one.place) for one in found] == [("films.pdf", "page 3"), ("people.csv", "row 7")]


def test_a_quote_is_the_passage_letter_for_letter() -> None:
    passages = {each.id: each for each in (FILM, DIRECTOR, OTHER)}
    for one in choose_citations("Where was the director of The Red Lantern born?", "Graz", list(passages.values())):
        assert passages[one.passage_id].text[slice(*one.span)] == one.quote


def test_a_sentence_that_begins_with_a_pronoun_is_quoted_with_the_one_before_it() -> None:
    limit = Passage("l", "work_mem", "It sets the memory of a sort. This value is 4MB unless it is set.")
    (found,) = choose_citations("How much is work_mem by default?", "4MB", [limit])
    assert found.quote == limit.text


def test_one_sentence_is_enough_where_it_covers_the_question() -> None:
    found = choose_citations("Which city in Austria has a clock tower?", "Graz", [DIRECTOR, OTHER])
    assert {one.passage_id for one in found} == {"other"}


def test_a_comparison_cites_both_things_in_the_order_of_the_question() -> None:
    first = Passage("a", "Lake Ness", "Lake Ness is in Scotland. It is 36 km long.")
    second = Passage("b", "Lake Como", "Lake Como is in Italy. It is 46 km long.")
    for answer in ("Lake Como", "no"):
        found = choose_citations("Which is longer, Lake Como or Lake Ness?", answer, [OTHER, first, second])
        assert [one.passage_id for one in found] == ["b", "a"]
        assert {one.role for one in found} == {CitationRole.COMPARISON}


def test_an_answer_that_stands_nowhere_gets_only_related_sentences() -> None:
    found = choose_citations("Who directed The Red Lantern?", "Quentin Vance", [FILM, OTHER])
    assert found and {one.role for one in found} == {CitationRole.RELATED}


def test_what_the_model_was_not_shown_is_cited_only_where_the_rest_does_not_hold_the_answer() -> None:
    text = "Anna Kolb lived in Graz. Anna Kolb was born in Graz."
    passage = Passage("p", "Anna Kolb", text)
    (shown,) = choose_citations("Where was Anna Kolb born?", "Graz", [passage], shown={"p": ((0, 24),)})
    assert shown.quote == "Anna Kolb lived in Graz."
    far = Passage("f", "Anna Kolb", "Anna Kolb was a director of films. She was born in Graz.")
    (fallen_back,) = choose_citations("Where was Anna Kolb born?", "Graz", [far], shown={"f": ((0, 34),)})
    assert "Graz" in fallen_back.quote


def test_the_nearest_sentences_are_those_that_cover_the_question() -> None:
    found = find_nearest("How tall is the clock tower of Graz?", [DIRECTOR, OTHER])
    assert "clock tower" in found[0].quote
    assert {one.role for one in found} == {CitationRole.RELATED}


def test_a_book_as_a_passage_is_cited_in_seconds() -> None:
    book = Passage("book", "A book", " ".join(f"Sentence {n} is about Graz and thing {n}." for n in range(5_000)))
    began = time.perf_counter()
    found = choose_citations("Which sentence is about thing 4711?", "Sentence 4711", [book])
    assert "4711" in found[-1].quote
    assert time.perf_counter() - began < 20


_texts = st.text(alphabet="ab 1.?\n\u4e2d\u3002Graz\u201c", max_size=80)


@given(_texts, _texts, st.lists(st.tuples(_texts, _texts), max_size=4))
def test_citations_are_few_and_true_whatever_the_text(question: str, answer: str, texts: list[tuple[str, str]]) -> None:
    passages = {str(number): Passage(str(number), title, text) for number, (title, text) in enumerate(texts)}
    for found in (
        choose_citations(question, answer, list(passages.values())),
        find_nearest(question, list(passages.values())),
    ):
        assert len(found) <= MOST_CITATIONS
        for one in found:
            assert one.quote and passages[one.passage_id].text[slice(*one.span)] == one.quote
