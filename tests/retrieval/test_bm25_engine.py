from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.errors import CorpusError, RetrievalError
from beliefrag.retrieval import Bm25Index, IndexWriter
from beliefrag.retrieval.bm25 import MOST_WORDS, query_terms
from beliefrag.types import Passage


def test_inflected_words_and_capitals_match() -> None:
    index = Bm25Index.in_memory([Passage("a", "", "The BUILDERS were building towers.")])
    assert index.search("tower", 1)
    assert index.search("builder builds", 1)


def test_ranking_does_not_depend_on_how_the_index_was_built(tmp_path: Path) -> None:
    chance = random.Random(7)
    passages = [
        Passage(f"p{n:04}", "", " ".join(f"q{chance.randrange(60)}x" for _ in range(chance.randrange(3, 60))))
        for n in range(1500)
    ]
    at_once = Bm25Index.in_memory(passages)
    chance.shuffle(passages)
    with IndexWriter(tmp_path / "index") as writer:
        for start in range(0, len(passages), 300):
            writer.add(passages[start : start + 300])
            writer.commit()
    in_steps = Bm25Index.open(tmp_path / "index")
    assert in_steps.fingerprint == at_once.fingerprint
    for n in range(40):
        query = f"q{n}x q{n + 5}x q{n + 11}x"
        assert [(hit.passage.id, hit.score) for hit in in_steps.search(query, 20)] == [
            (hit.passage.id, hit.score) for hit in at_once.search(query, 20)
        ]


def test_passages_are_fetched_by_id_in_the_order_asked(shelf: list[Passage]) -> None:
    index = Bm25Index.in_memory(shelf)
    assert index.get(["d7", "d2", "d7"]) == [shelf[7], shelf[2], shelf[7]]
    with pytest.raises(RetrievalError, match="'nowhere'"):
        index.get(["d1", "nowhere"])


def test_the_first_passages_are_first_by_id_however_alike_the_ids_begin() -> None:
    ids = [f"long-common-prefix-{n:03}" for n in range(300)]
    random.Random(2).shuffle(ids)
    index = Bm25Index.in_memory([Passage(own, "", "text") for own in [*ids, "a", "zz"]])
    assert [passage.id for passage in index.first(4)] == ["a", *sorted(ids)[:3]]
    assert len(index.first(10**9)) == 302
    assert index.first(0) == []
    assert Bm25Index.in_memory([]).first(5) == []


def test_of_two_passages_with_one_id_the_later_counts() -> None:
    index = Bm25Index.in_memory([Passage("a", "", "first"), Passage("a", "", "second")])
    assert (len(index), index.search("first", 5)) == (1, [])
    assert index.fingerprint == Bm25Index.in_memory([Passage("a", "", "second")]).fingerprint


def test_the_fingerprint_follows_content_and_nothing_else(shelf: list[Passage]) -> None:
    original = Bm25Index.in_memory(shelf).fingerprint
    moved = [Passage(p.id, p.title, p.text, "elsewhere") for p in reversed(shelf)]
    assert Bm25Index.in_memory(moved).fingerprint == original
    for changed in (
        [*shelf[1:]],
        [Passage("other", shelf[0].title, shelf[0].text), *shelf[1:]],
        [Passage(shelf[0].id, shelf[0].title + "!", shelf[0].text), *shelf[1:]],
        [Passage(shelf[0].id, shelf[0].title, shelf[0].text + "!"), *shelf[1:]],
        # The same letters, cut differently into title and text.
        [Passage(shelf[0].id, shelf[0].title + shelf[0].text[0], shelf[0].text[1:]), *shelf[1:]],
    ):
        assert Bm25Index.in_memory(changed).fingerprint != original


@pytest.mark.parametrize("own", ["", "a\nb", "a\x1b[31m", "x" * 600])
def test_an_id_that_could_not_be_shown_is_refused(own: str) -> None:
    with pytest.raises(CorpusError, match="passage id"):
        Bm25Index.in_memory([Passage(own, "", "text")])


def test_text_that_is_not_unicode_is_refused_by_name() -> None:
    with pytest.raises(CorpusError, match="'bad'"):
        Bm25Index.in_memory([Passage("bad", "", "half \ud800 of a pair")])


WORDS = Bm25Index.in_memory(
    [Passage("apples", "Apples", "red apples and pears"), Passage("title", "Words", "the title of an id in content")]
)


@given(st.text(st.characters(codec=None), max_size=200))
def test_no_query_raises(query: str) -> None:
    assert len(WORDS.search(query, 3)) <= 3


def test_a_huge_query_is_cut_and_answered_quickly() -> None:
    words = [f"word{n}" for n in range(20_000)]
    began = time.monotonic()
    assert [hit.passage.id for hit in WORDS.search(" ".join(["apples", *words]), 10)] == ["apples"]
    assert WORDS.search(" ".join([*words, "apples"]), 10) == []
    assert time.monotonic() - began < 5
    assert len(query_terms(" ".join(words))) == MOST_WORDS
