"""What holds for every engine, the embedded one included; tests of `any_engine` hold with vectors too."""

from __future__ import annotations

import random
import threading

import bm25s
import numpy as np
import pytest

from beliefrag.errors import CorpusError, RetrievalError
from beliefrag.retrieval import IndexBusy
from beliefrag.retrieval.bm25 import passage_terms, query_terms
from beliefrag.types import Passage
from tests.support.engines import AnyEngine, EngineUnderTest, fill

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
    exact.index([passage_terms(f"{each.title}\n{each.text}") for each in passages], show_progress=False)
    known = set(exact.vocab_dict)
    # Lucene's form leaves out the factor k1 + 1, which is the same for all.
    return np.asarray(exact.get_scores([term for term in query_terms(query) if term in known])) * np.float32(2.2)


def test_the_ranking_is_that_of_exact_bm25(engine: EngineUnderTest) -> None:
    passages = make_passages(300)
    fill(engine, passages)
    retriever = engine.open()
    number = {passage.id: place for place, passage in enumerate(passages)}
    for query in ("a bridge over the river", "Painted cities: who painted the king's tower?", "whale whale Whale lamp"):
        exact = exact_scores(passages, query)
        hits = retriever.search(query, 20)
        assert len(hits) == 20
        best = np.sort(exact)[::-1][:20]
        assert [hit.score for hit in hits] == pytest.approx(best.tolist(), rel=1e-4)
        assert [float(exact[number[hit.passage.id]]) for hit in hits] == pytest.approx(best.tolist(), rel=1e-4)


def test_a_hit_carries_the_whole_passage(any_engine: AnyEngine) -> None:
    passage = Passage(
        "d1", "Cape Bruna", "A headland.\nTwo currents meet:\ttabs, \"quotes\", 'and' \\backslashes\\.", "a"
    )
    fill(any_engine, [passage])
    assert [hit.passage for hit in any_engine.open().search("headland", 3)] == [passage]


def test_a_query_without_words_finds_nothing(engine: EngineUnderTest) -> None:
    fill(engine, make_passages(5))
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


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_a_question_is_words_and_never_a_query_language(engine: EngineUnderTest, query: str) -> None:
    passages = [
        Passage("r", "", "the river is long"),
        Passage("o", "", "nothing of that kind"),
        Passage("l", "", "x" * 100),
    ]
    fill(engine, passages)
    retriever = engine.open()
    expected = {"r"} if "river" in query_terms(query) else set()
    found = {hit.passage.id for hit in retriever.search(query, 3)}
    # Words such as "is" or "of" would find others; the query must not.
    assert found == expected
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
    fill(engine, [Passage(name, "", text) for name, text in texts.items()])
    retriever = engine.open()
    for query, name in [("αθήνα", "greek"), ("МОСКВА", "russian"), ("CAFÉ", "accents"), ("東京", "japanese")]:
        assert [hit.passage.id for hit in retriever.search(query, 3)] == [name], query
    assert retriever.search("whale", 1)[0].passage.text == texts["emoji"]
    assert retriever.get(["joined"])[0].text == texts["joined"]


def test_equal_scores_are_ordered_by_id_also_across_the_cut(any_engine: AnyEngine) -> None:
    ids = [f"t{number:03}" for number in range(120)]
    random.Random(1).shuffle(ids)
    fill(any_engine, [Passage(name, "", "the same lamp") for name in ids] + [Passage("best", "", "lamp lamp")])
    retriever = any_engine.open()
    for k in (1, 2, 7, 100, 121):
        assert [hit.passage.id for hit in retriever.search("lamp", k)] == ["best", *sorted(ids)][:k]


def test_a_deep_search_returns_all_that_match_and_no_more(engine: EngineUnderTest) -> None:
    passages = [Passage(f"d{number:04}", "", f"river {'x ' * (number % 7)}") for number in range(2500)]
    fill(engine, [*passages, Passage("other", "", "hill")])
    hits = engine.open().search("river", 5000)
    assert len({hit.passage.id for hit in hits}) == len(hits) == 2500
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_k_is_kept_to_and_a_negative_one_is_refused(any_engine: AnyEngine) -> None:
    fill(any_engine, make_passages(20))
    retriever = any_engine.open()
    assert retriever.search("river", 0) == []
    assert len(retriever.search("river", 3)) == 3
    with pytest.raises(RetrievalError, match="-1"):
        retriever.search("river", -1)


def test_what_is_deleted_is_not_found_and_does_not_count(any_engine: AnyEngine) -> None:
    passages = make_passages(100)
    fill(any_engine, passages)
    with any_engine.write() as writer:
        assert writer.delete([f"p{number:04}" for number in range(50)] + ["unknown"]) == 50
    rest = passages[50:]
    retriever = any_engine.open()
    hits = retriever.search("bridge tower", 30)
    assert len(retriever) == 50
    assert len(hits) == 30
    assert {hit.passage.id for hit in hits} <= {passage.id for passage in rest}
    if any_engine.forgets_deleted:
        best = np.sort(exact_scores(rest, "bridge tower"))[::-1][:30]
        assert [hit.score for hit in hits] == pytest.approx(best.tolist(), rel=1e-4)
    with pytest.raises(RetrievalError, match="p0001"):
        retriever.get(["p0001"])


def test_what_is_changed_is_found_by_its_new_words_only(engine: EngineUnderTest) -> None:
    fill(engine, [Passage("a", "", "old harbour"), Passage("b", "", "old hill")])
    before = engine.open().fingerprint
    with engine.write() as writer:
        assert writer.add([Passage("a", "", "new tram"), Passage("b", "", "old hill")]) == (1, 1)
    retriever = engine.open()
    assert [hit.passage.id for hit in retriever.search("tram", 5)] == ["a"]
    assert [hit.passage.id for hit in retriever.search("harbour old", 5)] == ["b"]
    assert retriever.fingerprint != before
    with engine.write() as writer:
        writer.add([Passage("a", "", "old harbour")])
    assert engine.open().fingerprint == before


def test_a_source_is_replaced_as_a_whole(any_engine: AnyEngine) -> None:
    with any_engine.write() as writer:
        writer.put_source("one", [Passage("a", "", "river", "one"), Passage("b", "", "hill", "one")])
        writer.put_source("two", [Passage("b", "", "hill", "two"), Passage("a", "", "other river", "two")])
    with any_engine.write() as writer:
        assert writer.put_source("one", [Passage("a", "", "river", "one")]) == (0, 0)
        assert writer.put_source("two", []) == (0, 2)
    retriever = any_engine.open()
    assert [hit.passage.id for hit in retriever.search("river hill", 5)] == ["a"]


def test_the_fingerprint_is_that_of_the_passages_on_whichever_engine(any_engine: AnyEngine) -> None:
    from beliefrag.retrieval import Bm25Index

    passages = make_passages(30)
    fill(any_engine, passages[:20])
    with any_engine.write() as writer:
        writer.add(passages[10:])
        writer.delete(["p0000"])
    assert any_engine.open().fingerprint == Bm25Index.in_memory(passages[1:]).fingerprint


def test_the_scale_of_scores_is_that_of_the_embedded_engine(engine: EngineUnderTest) -> None:
    from beliefrag.retrieval import Bm25Index

    passages = make_passages(150)
    fill(engine, passages)
    scale, embedded = engine.open().score_scale, Bm25Index.in_memory(passages).score_scale
    assert (scale.location, scale.scale) == pytest.approx((embedded.location, embedded.scale), rel=1e-3)


def test_a_second_writer_is_told_to_wait(any_engine: AnyEngine) -> None:
    with any_engine.write() as first:
        first.add([Passage("a", "", "river")])
        with pytest.raises(IndexBusy, match="another"), any_engine.write():
            pass
    with any_engine.write() as second:
        second.add([Passage("b", "", "river")])
    assert len(any_engine.open().search("river", 5)) == 2


def test_two_writers_at_once_lose_and_double_nothing(engine: EngineUnderTest) -> None:
    fill(engine, [Passage("first", "", "river")])
    problems: list[BaseException] = []

    def write(part: int) -> None:
        for number in range(6):
            while True:
                try:
                    with engine.write() as writer:
                        writer.add([Passage(f"w{part}-{number}", "", f"river number {number}")])
                    break
                except IndexBusy:
                    continue
                except BaseException as problem:
                    problems.append(problem)
                    return

    writers = [threading.Thread(target=write, args=(part,)) for part in (1, 2)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(timeout=300)
    assert problems == []
    hits = engine.open().search("river", 50)
    assert sorted(hit.passage.id for hit in hits) == sorted(
        ["first", *(f"w{part}-{number}" for part in (1, 2) for number in range(6))]
    )


def test_what_an_index_cannot_hold_is_refused_by_name(engine: EngineUnderTest) -> None:
    for bad in (Passage("", "", "x"), Passage("a\nb", "", "x"), Passage("half", "", "\ud800")):
        with pytest.raises(CorpusError), engine.write() as writer:
            writer.add([bad])


def test_searches_from_many_threads_agree(engine: EngineUnderTest) -> None:
    passages = make_passages(200)
    fill(engine, passages)
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
