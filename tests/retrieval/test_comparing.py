"""Questions for the earlier or later of two things."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.retrieval.comparing import compare_dates, find_options
from beliefrag.types import Passage

HOLM = Passage("h", "Ada Holm", "Ada Holm (12 March 1930 – 4 May 1999) was a designer.")
LUND = Passage("l", "Per Lund (director)", "Per Lund (1 May 1928 – 2 June 2003) was a director of films.")
DUSK = Passage("k", "Dusk", "Dusk is a 1960 film directed by Ada Holm. Per Lund plays in it.")
DAWN = Passage("w", "The Dawn (film)", "The Dawn is a 1955 film that Per Lund wrote and directed with a friend.")
BAND = Passage("b", "Salt and Ice", "Salt and Ice is a band. It was formed in 1994.")
CHOIR = Passage("c", "Torsby Choir", "The choir of Torsby was founded in 1870 and has 40 members.")
ALL = [HOLM, LUND, DUSK, DAWN, BAND, CHOIR]


def answer(question: str, *passages: Passage) -> str | None:
    decided = compare_dates(question, passages or ALL)
    return decided.answer if decided else None


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who was born first, Ada Holm or Per Lund?", "Per Lund"),
        ("Who was born later, Ada Holm or Per Lund?", "Ada Holm"),
        ("Who is older, Ada Holm or Per Lund?", "Per Lund"),
        ("Who is younger, Ada Holm or Per Lund?", "Ada Holm"),
        ("Was Ada Holm or Per Lund born first?", "Per Lund"),
        ("Who died earlier, Ada Holm or Per Lund?", "Ada Holm"),
        ("Who lived longer, Ada Holm or Per Lund?", "Per Lund"),
        ("Which film came out first, Dusk or The Dawn?", "The Dawn"),
        ("Which film was released more recently, Dusk or the Dawn?", "Dusk"),
        ("Which film has the director who was born later, Dusk or The Dawn?", "Dusk"),
        ("Which film has the director who is older than the other, Dusk or The Dawn?", "The Dawn"),
        ("Which film whose director died last, Dusk or The Dawn (film)?", "The Dawn (film)"),
        ("Which is older, Salt and Ice or the Torsby Choir?", "Torsby Choir"),
        ("Which group was founded first: Salt and Ice or Torsby Choir?", "Torsby Choir"),
    ],
)
def test_the_dates_decide(question: str, expected: str) -> None:
    assert answer(question) == expected


@pytest.mark.parametrize(
    "question",
    [
        "Who designed more bridges, Ada Holm or Per Lund?",
        "Who died in the First World War, Ada Holm or Per Lund?",
        "Who was born to the first mayor of Oslo, Ada Holm or Per Lund?",
        "Who was not born first, Ada Holm or Per Lund?",
        "Who of those born after 1925 died first, Ada Holm or Per Lund?",
        "Who was born first, Ada Holm or Lars Berg?",
        "Who was born first, Ada Holm and Per Lund?",
        "Which film has the singer who was born first, Dusk or Salt and Ice?",
        "Who founded a company first, Ada Holm or Per Lund?",
        "Who of these people that my friends from the village told me about was born first, Ada Holm or Per Lund?",
        "",
    ],
)
def test_what_is_no_plain_comparison_is_left_to_the_model(question: str) -> None:
    assert answer(question) is None


def test_without_both_dates_nothing_is_decided() -> None:
    undated = Passage("h", "Ada Holm", "Ada Holm was a designer.")
    same = Passage("h", "Ada Holm", "Ada Holm (1928 – 1999) was a designer.")
    assert answer("Who was born first, Ada Holm or Per Lund?", undated, LUND) is None
    assert answer("Who was born first, Ada Holm or Per Lund?", same, LUND) is None, "1928 may be before 1 May"
    assert answer("Which film has the director who was born later, Dusk or The Dawn?", DUSK, DAWN, LUND) is None


def test_of_two_passages_with_one_title_neither_is_meant() -> None:
    novel = Passage("n", "Dusk (novel)", "Dusk is a novel of 1889.")
    assert answer("Which came first, Dusk or The Dawn?") == "The Dawn"
    assert answer("Which came first, Dusk or The Dawn?", *ALL, novel) is None
    assert answer("Which came first, Dusk (novel) or The Dawn?", *ALL, novel) == "Dusk (novel)"


def test_what_was_compared_is_told() -> None:
    decided = compare_dates("Which film has the director who died first, Dusk or The Dawn?", ALL)
    assert decided is not None
    assert decided.compared == ("Dusk: Ada Holm died 4 May 1999", "The Dawn: Per Lund (director) died 2 June 2003")


def test_the_name_that_stands_next_to_the_role_is_the_one_that_counts() -> None:
    film = Passage("f", "Noon", "Noon is a film directed by Per Lund, with Ada Holm.")
    assert answer("Which film has the director who died later, Noon or Dusk?", film, DUSK, HOLM, LUND) == "Noon"


def test_options_are_titles_and_may_hold_commas_and_or() -> None:
    tales = [Passage("1", "Sink or Swim", ""), Passage("2", "Oslo, Norway", "")]
    found = find_options("Which is older, Sink or Swim or Oslo, Norway?", tales)
    assert found and [each.text for each in found] == ["Sink or Swim", "Oslo, Norway"]
    assert find_options("Which is older, Oslo, Norway or Oslo, Norway?", tales) is None


def test_a_long_question_of_many_ors_is_read_to_its_end() -> None:
    assert answer("or " * 20_000) is None
    assert answer("Ada Holm or " * 5_000 + "Per Lund was born first?") is None, "it is no plain comparison"


@given(st.text(max_size=200), st.lists(st.text(max_size=40), max_size=5))
def test_any_question_and_passages_are_read(question: str, texts: list[str]) -> None:
    passages = [Passage(str(number), text, text) for number, text in enumerate(texts)]
    decided = compare_dates(question, passages)
    assert decided is None or decided.answer in question
