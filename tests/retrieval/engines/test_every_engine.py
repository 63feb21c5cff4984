"""What holds for every engine, the embedded one included."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace

import bm25s
import numpy as np
import pytest

from beliefrag.errors import RetrievalError
from beliefrag.retrieval import Bm25Index
from beliefrag.retrieval.bm25 import passage_terms, query_terms
from beliefrag.retrieval.filters import parse_filter
from beliefrag.types import Passage
from tests.support.engines import EngineUnderTest

TEXT = """river bridge tower harbour storm whale lamp tram hill engineer painter novel song war treaty king running runs
cities city painted paintings born electric railways railway discovered island"""
WORDS = TEXT.split()


def make_passages(count: int, *, seed: int = 3) -> list[Passage]:
    """Short passages of few words, so that scores differ and every engine knows their lengths exactly."""
    chance = random.Random(seed)
    weights = [1 / (place + 1) for place in range(len(WORDS))]
    return [
        Passage(
            f"p{number:04}",
            f"Title {number}",
            " ".join(chance.choices(WORDS, weights, k=chance.randint(4, 30))),
            f"book-{number % 3}",
        )
        for number in range(count)
    ]


def exact_scores(passages: list[Passage], query: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """BM25 of every passage by another implementation, over the terms of the embedded analyser."""
    exact = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    exact.index([passage_terms(each) for each in passages], show_progress=False)
    known = set(exact.vocab_dict)
    # Lucene's form leaves out the factor k1 + 1, which is the same for all.
    return np.asarray(exact.get_scores([term for term in query_terms(query) if term in known])) * np.float32(2.2)


def test_the_ranking_is_that_of_exact_bm25(engine: EngineUnderTest) -> None:
    passages = make_passages(300)
    engine.fill(passages)
    retriever = engine.open()
    number = {passage.id: place for place, passage in enumerate(passages)}
    for query in ("a bridge over the river", "Painted cities: who painted the king's tower?", "whale whale Whale lamp"):
        exact = exact_scores(passages, query)
        hits = retriever.search(query, 20)
        assert len(hits) == 20
        best = np.sort(exact)[::-1][:20]
        assert [hit.score for hit in hits] == pytest.approx(best.tolist(), rel=1e-4)
        assert [float(exact[number[hit.passage.id]]) for hit in hits] == pytest.approx(best.tolist(), rel=1e-4)


def test_a_hit_carries_the_whole_passage(engine: EngineUnderTest) -> None:
    passage = Passage(
        "d1", "Cape Bruna", "A headland.\nTwo currents meet:\ttabs, \"quotes\", 'and' \\backslashes\\.", "a"
    )
    engine.fill([passage])
    assert [hit.passage for hit in engine.open().search("headland", 3)] == [passage]


def test_a_query_without_words_finds_nothing(engine: EngineUnderTest) -> None:
    engine.fill(make_passages(5))
    retriever = engine.open()
    for query in ("", "   ", "?!… — ()", "\x00", "zzzunknown"):
        assert retriever.search(query, 5) == []


HOSTILE = [
    'river AND NOT bridge OR "tower" title:x id:p0001 *:* river~2 river^9 [a TO z] {a TO z} /re.*/',
    "river'; DROP TABLE passages; --",
    "river\\",
    'river") OR 1=1 --',
    "%s %(terms)s {} $1 river",
    "content @@@ 'x' <@> to_bm25query('river', 'i') || river",
    "river \ud800 \U0001f600 \x00\x1b[2J",
    "river & | ! ( : * <-> tower:B",
    '{"query": {"match_all": {}}} river',
    "river " + "a" * 50_000,
    " ".join(f"word{number}" for number in range(3000)) + " river",
]


def test_a_question_is_words_and_never_a_query_language(engine: EngineUnderTest) -> None:
    engine.fill(
        [Passage("r", "", "the river is long"), Passage("o", "", "nothing of that kind"), Passage("l", "", "x" * 100)]
    )
    retriever = engine.open()
    for query in HOSTILE:
        expected = {"r"} if "river" in query_terms(query) else set()
        # Words such as "is" or "of" would find others; the query must not.
        assert {hit.passage.id for hit in retriever.search(query, 3)} == expected, query[:80]
    assert len(retriever) == 3


def test_scripts_of_the_world_are_searched_and_kept(engine: EngineUnderTest) -> None:
    texts = {
        "greek": "Η Αθήνα είναι πρωτεύουσα",
        "russian": "Москва столица России",
        "accents": "naïve café über Ærø",
        "japanese": "東京 タワー",
        "emoji": "the \U0001f433 whale sign",
        "joined": "e\u0301tude in two code points",
    }
    engine.fill([Passage(name, "", text) for name, text in texts.items()])
    retriever = engine.open()
    for query, name in [("αθήνα", "greek"), ("МОСКВА", "russian"), ("CAFÉ", "accents"), ("東京", "japanese")]:
        assert [hit.passage.id for hit in retriever.search(query, 3)] == [name], query
    assert retriever.search("whale", 1)[0].passage.text == texts["emoji"]
    assert retriever.get(["joined"])[0].text == texts["joined"]


def test_equal_scores_are_ordered_by_id_also_across_the_cut(engine: EngineUnderTest) -> None:
    ids = [f"t{number:03}" for number in range(120)]
    random.Random(1).shuffle(ids)
    engine.fill([Passage(name, "", "the same lamp") for name in ids] + [Passage("best", "", "lamp lamp")])
    retriever = engine.open()
    for k in (1, 2, 7, 100, 121):
        assert [hit.passage.id for hit in retriever.search("lamp", k)] == ["best", *sorted(ids)][:k]


def test_a_deep_search_returns_all_that_match_and_no_more(engine: EngineUnderTest) -> None:
    passages = [Passage(f"d{number:04}", "", f"river {'x ' * (number % 7)}") for number in range(2500)]
    engine.fill([*passages, Passage("other", "", "hill")])
    hits = engine.open().search("river", 5000)
    assert len({hit.passage.id for hit in hits}) == len(hits) == 2500
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_k_is_kept_to_and_a_negative_one_is_refused(engine: EngineUnderTest) -> None:
    engine.fill(make_passages(20))
    retriever = engine.open()
    assert retriever.search("river", 0) == []
    assert len(retriever.search("river", 3)) == 3
    with pytest.raises(RetrievalError, match="-1"):
        retriever.search("river", -1)


def test_what_is_deleted_is_not_found_and_does_not_count(engine: EngineUnderTest) -> None:
    passages = make_passages(100)
    engine.fill(passages)
    rest = passages[50:]
    engine.fill(rest)
    retriever = engine.open()
    hits = retriever.search("bridge tower", 30)
    assert len(retriever) == 50
    assert {hit.passage.id for hit in hits} <= {passage.id for passage in rest}
    best = np.sort(exact_scores(rest, "bridge tower"))[::-1][:30]
    assert [hit.score for hit in hits] == pytest.approx(best.tolist(), rel=1e-4)
    with pytest.raises(RetrievalError, match="p0001"):
        retriever.get(["p0001"])
    assert retriever.fingerprint == Bm25Index.in_memory(rest).fingerprint


def test_what_is_changed_is_found_by_its_new_words_only(engine: EngineUnderTest) -> None:
    old = [Passage("a", "", "old harbour"), Passage("b", "", "old hill")]
    engine.fill(old)
    before = engine.open().fingerprint
    engine.fill([Passage("a", "", "new tram"), old[1]])
    retriever = engine.open()
    assert [hit.passage.id for hit in retriever.search("tram", 5)] == ["a"]
    assert [hit.passage.id for hit in retriever.search("harbour old", 5)] == ["b"]
    assert retriever.fingerprint != before
    engine.fill(old)
    assert engine.open().fingerprint == before


def test_the_scale_of_scores_is_that_of_the_embedded_engine(engine: EngineUnderTest) -> None:
    passages = make_passages(150)
    engine.fill(passages)
    scale, embedded = engine.open().score_scale, Bm25Index.in_memory(passages).score_scale
    assert (scale.location, scale.scale) == pytest.approx((embedded.location, embedded.scale), rel=1e-3)


def test_searches_from_many_threads_agree(engine: EngineUnderTest) -> None:
    passages = make_passages(200)
    engine.fill(passages)
    retriever = engine.open()
    queries = WORDS[:12]
    expected = [retriever.search(query, 5) for query in queries]
    found: dict[int, list[object]] = {}

    def search(part: int) -> None:
        found[part] = [retriever.search(query, 5) for query in queries]

    threads = [threading.Thread(target=search, args=(part,)) for part in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(timeout=120)
    assert [found[part] for part in range(6)] == [expected] * 6


def test_a_filter_limits_the_search_itself(engine: EngineUnderTest) -> None:
    passages = [
        replace(each, metadata=(("year", str(2000 + place)), ("tag", "a'; --")))
        for place, each in enumerate(make_passages(60))
    ]
    engine.fill(passages)
    retriever = engine.open()
    whole = {hit.passage: hit.score for hit in retriever.search("river bridge tower", 60)}
    limits: dict[str, Callable[[int], bool]] = {
        "year>=2030 and year<2050": lambda place: 30 <= place < 50,
        "path=book-1 or not (year<2058)": lambda place: place % 3 == 1 or place >= 58,
        'tag="a\'; --" and language=en and year!=2003 and file!=book-2': lambda place: place % 3 != 2 and place != 3,
        "tag=b": lambda place: False,
    }
    for where, holds in limits.items():
        hits = retriever.where(parse_filter(where)).search("river bridge tower", 60)
        wanted = {each for place, each in enumerate(passages) if holds(place)} & whole.keys()
        assert {hit.passage for hit in hits} == wanted, where
        # Frequencies are those of the whole corpus.
        assert all(hit.score == pytest.approx(whole[hit.passage], rel=1e-5) for hit in hits)


def test_changed_metadata_replaces_the_old(engine: EngineUnderTest) -> None:
    first, *others = make_passages(9)
    for year in ("2001", "2002"):
        engine.fill([replace(first, metadata=(("year", year),)), *others])
    retriever = engine.open()
    assert not retriever.where(parse_filter("year=2001")).search(first.text, 5)
    assert [hit.passage.id for hit in retriever.where(parse_filter("year=2002")).search(first.text, 5)] == [first.id]
