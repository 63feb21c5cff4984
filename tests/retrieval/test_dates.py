"""Dates as encyclopedias write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.retrieval.dates import Date, Life, find_beginning, find_dates, find_life


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("on 12 March 1930 in Oslo", [Date(1930, 3, 12)]),
        ("on March 12, 1930", [Date(1930, 3, 12)]),
        ("in March 1930 and in 1931", [Date(1930, 3), Date(1931)]),
        ("the 3rd May 1808", [Date(1808, 5, 3)]),
        ("in 753 BC", [Date(-753)]),
        ("12 Sept. 1930 is read as its year alone", [Date(1930)]),
        ("it cost 1,930 crowns, 1930.5 or 1930 %, for 193000 people", [Date(1930)]),
        ("bus 377", []),
        ("", []),
    ],
)
def test_dates_are_found_in_their_order(text: str, dates: list[Date]) -> None:
    assert find_dates(text) == dates


def test_dates_are_told_in_words() -> None:
    assert [str(each) for each in (Date(1930, 3, 12), Date(1930, 3), Date(-753))] == [
        "12 March 1930",
        "March 1930",
        "753 BC",
    ]


@pytest.mark.parametrize(
    ("one", "other", "is_before"),
    [
        (Date(1930), Date(1931), True),
        (Date(1931, 1, 1), Date(1930), False),
        (Date(1930, 3), Date(1930, 4, 2), True),
        (Date(1930), Date(1930, 4, 2), None),
        (Date(1930, 4), Date(1930, 4, 2), None),
        (Date(1930, 4, 2), Date(1930, 4, 2), None),
        (Date(-753), Date(1930), True),
    ],
)
def test_dates_that_are_too_coarse_are_not_ordered(one: Date, other: Date, is_before: bool | None) -> None:
    assert one.is_before(other) is is_before


@pytest.mark.parametrize(
    ("text", "life"),
    [
        ("Ada Holm (12 March 1930 – 4 May 1999) was a designer.", Life(Date(1930, 3, 12), Date(1999, 5, 4))),
        ("Ada Holm( born 12 March 1930) is a designer.", Life(birth=Date(1930, 3, 12))),
        ("Ada Holm (1930 – ) is a designer.", Life(birth=Date(1930))),
        ("Ada Holm (died 1999) was a designer.", Life(death=Date(1999))),
        ("Ada Holm (née Lund) was born in Oslo in 1930. She died on 4 May 1999.", Life(Date(1930), Date(1999, 5, 4))),
        ("Dusk (1952) is a painting.", Life()),
    ],
)
def test_a_life_is_read_from_parentheses_or_from_born_and_died(text: str, life: Life) -> None:
    assert find_life(text) == life


def test_a_life_is_counted_in_whole_months() -> None:
    assert Life(Date(1930, 3, 12), Date(1999, 3, 11)).months() == 12 * 69 - 1
    assert Life(Date(1930, 3, 12), Date(1999, 3, 12)).months() == 12 * 69
    assert Life(birth=Date(1930)).months() is None


def test_a_beginning_is_the_first_date_of_the_first_sentence_that_has_one() -> None:
    assert find_beginning("Dusk is a band. It was formed in 1994 and split in 2001.") == Date(1994)
    assert find_beginning("Dusk is a band.") is None


def test_a_beginning_stands_behind_its_verb_where_the_text_has_it() -> None:
    project = "Dusk was approved in 2019. After a delay it was started in May 2021."
    assert find_beginning(project) == Date(2019)
    assert find_beginning(project, "started") == Date(2021, 5)
    assert find_beginning(project, "starts") == Date(2021, 5)
    assert find_beginning(project, "released") == Date(2019), "nothing says when it was released"


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    for date in find_dates(text):
        assert str(date) and 0 <= date.month <= 12 and 0 <= date.day <= 31
    find_life(text)
    find_beginning(text)
