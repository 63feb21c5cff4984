"""Limiting a search by metadata: the grammar, the comparisons, and searches on the retrievers of this machine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from beliefrag.errors import SettingsError
from beliefrag.retrieval import RETRIEVERS, Bm25Index, IndexWriter, PassageSource, open_retriever
from beliefrag.retrieval.filters import Condition, limit_retriever, parse_filter
from beliefrag.types import Passage

PASSAGES = [
    Passage(
        f"p{number}",
        f"Harbour {number}",
        f"Harbour {number} lies on the cold river. It is older than Harbour {(number + 1) % 6}.",
        f"/docs/{'people' if number % 2 else 'ships'}/{number}.{'md' if number < 3 else 'pdf'}",
        metadata=(
            ("year", str(2018 + number)),
            ("date", f"{2018 + number}-05-31"),
            ("tag", "a"),
            ("tag", f"t{number}"),
        ),
    )
    for number in range(6)
]
WANTED = {
    "year=2019": {1},
    "year>=2022": {4, 5},
    "year!=2019 and year<2021": {0, 2},
    "date>2021 and date<2022-06": {3, 4},
    "tag=T5 or tag='t0'": {0, 5},
    "path=ships/*": {0, 2, 4},
    "path=*.pdf and not path=/docs/people/*": {4},
    'not (year<2020 or path="people/5.pdf")': {2, 3, 4},
    "language=en and tag=a and year=2023.0": {5},
    "colour=red": set(),
}


@pytest.mark.parametrize("retriever", ["bm25", "linked"])
def test_a_search_finds_what_the_filter_describes_and_nothing_else(retriever: str) -> None:
    opened = open_retriever(RETRIEVERS.choose(retriever, {}), PassageSource(passages=PASSAGES))
    whole = {hit.passage.id for hit in opened.search("the old river of Harbour 1", 6)}
    assert len(whole) == 6
    for where, numbers in WANTED.items():
        hits = limit_retriever(opened, where).search("the old river of Harbour 1", 6)
        assert {hit.passage.id for hit in hits} == {f"p{number}" for number in numbers}, where
        assert all(
            hit.provenance is None or hit.provenance.passage in {"", *(f"p{n}" for n in numbers)} for hit in hits
        )


def test_a_second_filter_narrows_the_first() -> None:
    index = Bm25Index.in_memory(PASSAGES)
    limited = index.where(parse_filter("year>2019")).where(parse_filter("year<2021 or tag=t0"))
    assert [hit.passage.id for hit in limited.search("river", 6)] == ["p2"]


def test_hits_and_scores_below_a_filter_are_those_of_the_whole_search(tmp_path: Path) -> None:
    with IndexWriter(tmp_path / "index") as writer:
        writer.add(PASSAGES)
    index = Bm25Index.open(tmp_path / "index")
    whole = [(hit.passage, hit.score) for hit in index.search("older Harbour 3", 6)]
    limited = index.where(parse_filter("path=ships/*")).search("older Harbour 3", 6)
    assert [(hit.passage, hit.score) for hit in limited] == [each for each in whole if "ships" in each[0].source]


@pytest.mark.parametrize(
    "where",
    [
        "year",
        "year=",
        "=2020",
        "year=2020 and",
        "(year=1",
        "year=1)",
        "year=1 year=2",
        'tag="a',
        "a==b",
        "(" * 50,
        "x" * 3000,
    ],
)
def test_a_filter_that_cannot_be_read_is_refused_in_one_line(where: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_filter(where)
    assert "\n" not in str(raised.value)
    assert raised.value.remedy


def test_values_are_data() -> None:
    for value in ("x' or 1=1", "*:*", "__import__('os')", "a\x00b", "; drop table passages"):
        passages = [Passage("a", "", "the river", metadata=(("tag", value),)), Passage("b", "", "the river")]
        index = Bm25Index.in_memory(passages)
        hits = index.where(Condition("tag", "=", value)).search("river", 5)
        assert [hit.passage.id for hit in hits] == ["a"]


def test_a_pattern_of_many_wildcards_takes_no_time() -> None:
    began = time.perf_counter()
    assert not Condition("tag", "=", "*a" * 900 + "b").accepts("a" * 300)
    assert time.perf_counter() - began < 1.0
