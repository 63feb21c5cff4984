from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beliefrag.retrieval.documents import (
    LONGEST,
    LONGEST_ROW,
    TARGET,
    Document,
    clean_text,
    count_words,
    cut_document,
    split_text,
)


def sentence(words: int, mark: str = "w") -> str:
    return " ".join([mark.capitalize(), *(f"{mark}{n}" for n in range(words - 1))]) + "."


prose = st.text(st.sampled_from("abc Z.?!。漢字\n\t-1)é\"'"), max_size=3000) | st.text(max_size=500)


@settings(deadline=None)
@given(prose)
def test_nothing_is_lost_nothing_is_too_long_and_it_is_always_the_same(text: str) -> None:
    pieces = split_text(text)
    assert "".join("".join(pieces).split()) == "".join(clean_text(text).split())
    assert all(0 < count_words(piece) <= LONGEST for piece in pieces)
    assert all(len(piece) <= 41 * LONGEST for piece in pieces)
    assert split_text(text) == pieces


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(3, 40), min_size=30, max_size=60))
def test_ordinary_prose_comes_in_passages_of_about_a_hundred_words(lengths: list[int]) -> None:
    pieces = split_text(" ".join(sentence(length) for length in lengths))
    assert all(TARGET - 40 <= count_words(piece) <= TARGET for piece in pieces[:-2])
    assert all(piece.startswith("W") and piece.endswith(".") for piece in pieces)


def test_a_passage_ends_with_a_paragraph_when_it_is_long_enough() -> None:
    first, second, third = sentence(70, "a"), sentence(30, "b"), sentence(90, "c")
    assert split_text(f"{first}\n\n{second}\n\n{third}") == [first, second, third]


def test_a_few_words_at_the_end_stay_with_the_passage_before() -> None:
    body = sentence(95)
    assert split_text(f"{body}\n\nThe end of it.") == [f"{body}\nThe end of it."]


def test_chinese_is_measured_in_characters() -> None:
    pieces = split_text("这是一个句子。" * 100)
    assert [count_words(piece) <= LONGEST for piece in pieces] == [True] * len(pieces)
    assert len(pieces) >= 5
    assert all(piece.endswith("。") for piece in pieces)


def test_ids_follow_document_and_content_but_not_position() -> None:
    parts = [sentence(90, mark) for mark in "abc"]
    before = {p.text: p.id for p in cut_document(Document("f.txt", "T", "\n\n".join(parts), "/f.txt"))}
    after = {p.text: p.id for p in cut_document(Document("f.txt", "T", "\n\n".join([sentence(80, "n"), *parts]), "/g"))}
    assert {text: after[text] for text in before} == before
    elsewhere = {p.id for p in cut_document(Document("g.txt", "T", "\n\n".join(parts), "/f.txt"))}
    retitled = {p.id for p in cut_document(Document("f.txt", "U", "\n\n".join(parts), "/f.txt"))}
    assert not (elsewhere | retitled) & set(before.values())


def test_a_row_with_an_id_stays_whole_and_verbatim() -> None:
    text = "  Odd   spacing,\n\nkept.  " + "word " * (LONGEST_ROW - 10)
    [passage] = cut_document(Document("row-1", "T", text, "/rows", own_id=True))
    assert (passage.id, passage.text) == ("row-1", text)


def test_a_long_row_with_an_id_is_numbered() -> None:
    text = " ".join([sentence(50)] * 10)
    passages = list(cut_document(Document("row-1", "T", text, "/rows", own_id=True)))
    assert [p.id for p in passages] == ["row-1", "row-1#2", "row-1#3", "row-1#4", "row-1#5"]
    assert " ".join(p.text for p in passages) == text


@pytest.mark.parametrize("words", [LONGEST_ROW, LONGEST_ROW + 1])
@pytest.mark.parametrize("kind", ["word ", "漢", "é" * 39 + " ", "y" * 40])
def test_the_limit_of_a_row_is_exact_in_any_script(words: int, kind: str) -> None:
    passages = list(cut_document(Document("r", "", kind * words, "s", own_id=True)))
    assert (len(passages) == 1) == (words == LONGEST_ROW)


@pytest.mark.parametrize(
    "hostile", ["\n" * 500_000, "\n " * 200_000, " " * 500_000 + "x", "- a\n" * 40_000, ". " * 50_000]
)
def test_no_text_takes_more_than_linear_time(hostile: str) -> None:
    began = time.monotonic()
    split_text(hostile)
    assert time.monotonic() - began < 5


def test_control_characters_and_half_pairs_do_not_reach_a_passage() -> None:
    [piece] = split_text("red\x1b[31m text\x00 with \ud800 things")
    assert piece == "red [31m text with \ufffd things"
