from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.retrieval import Bm25Index
from beliefrag.retrieval.bm25 import MOST_WORDS, query_terms
from beliefrag.types import Passage


def found(index: Bm25Index, query: str) -> list[str]:
    return [hit.passage.id for hit in index.search(query, 10)]


@pytest.fixture(scope="module")
def index() -> Bm25Index:
    return Bm25Index.in_memory(
        [
            Passage("apples", "Apples", "red apples and pears"),
            Passage("title", "Words", "the title of an id in content"),
        ]
    )


@pytest.mark.parametrize(
    "syntax",
    [
        'id:"title"', "content:apples", "+apples -pears", "apples NOT pears", '"pears apples"', "appl*", "(apples",
        "apples^5", "apples AND words", "[a TO z]", "/app.*/", "apples~2", "NOT apples", "\\apples", 'apples"',
        "id:[* TO *]", "IN [apples]",
    ],
)  # fmt: skip
def test_query_syntax_is_only_words(index: Bm25Index, syntax: str) -> None:
    plain = "".join(character if character.isalnum() else " " for character in syntax)
    assert found(index, syntax) == found(index, plain)


@pytest.mark.parametrize("nothing", ["", " \n\t", "?!...,;", "()[]{}*:\"'\\^~", "\x00\x01\x7f", "\ud800", "x" * 5000])
def test_a_query_without_words_finds_nothing(index: Bm25Index, nothing: str) -> None:
    assert index.search(nothing, 5) == []


def test_half_a_surrogate_pair_does_not_hide_the_words_around_it(index: Bm25Index) -> None:
    assert found(index, "red \ud83d apples") == ["apples"]


@given(st.text(st.characters(codec=None), max_size=200))
def test_no_query_raises(index: Bm25Index, query: str) -> None:
    assert len(index.search(query, 3)) <= 3


def test_a_huge_query_is_cut_and_answered_quickly(index: Bm25Index) -> None:
    words = [f"word{n}" for n in range(20_000)]
    began = time.monotonic()
    assert found(index, " ".join(["apples", *words])) == ["apples"]
    assert found(index, " ".join([*words, "apples"])) == []
    assert time.monotonic() - began < 5
    assert len(query_terms(" ".join(words))) == MOST_WORDS


def test_a_repeated_word_counts_once(index: Bm25Index) -> None:
    once, often = index.search("red apples", 1)[0], index.search("red apples " * 50, 1)[0]
    assert once.score == often.score
