"""A retriever whose hits are exchanged on purpose: as many as asked for, seeded, and in nobody's way."""

from __future__ import annotations

import statistics

import pytest

from beliefrag.errors import RetrievalError, SettingsError
from beliefrag.retrieval import Bm25Index
from beliefrag.retrieval.injection import InjectedRetriever, content_words
from beliefrag.types import Hit, Passage

SHIPS = [Passage(f"ship{k}", "", f"the ship Fram{k} sailed with its crew") for k in range(8)]
OTHERS = [Passage(f"other{k}", "", f"a recipe for bread number {k}, baked slowly") for k in range(300)]
INDEX = Bm25Index.in_memory([*SHIPS, *OTHERS])
QUERY = "Which ship sailed?"


def injected(**how: object) -> InjectedRetriever:
    return InjectedRetriever(INDEX, pool=[*SHIPS, *OTHERS], about="the ship", **how)  # type: ignore[arg-type]


def false(passage: Passage) -> Passage | None:
    return Passage(f"not-{passage.id}", "", "the ship sank") if passage.id in {"ship0", "ship1", "ship2"} else None


def ids(hits: list[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


@pytest.mark.parametrize(("share", "count"), [(0.2, 1), (0.4, 2), (0.6, 3), (0.8, 4), (1.0, 5)])
def test_the_share_that_is_asked_for_is_irrelevant(share: float, count: int) -> None:
    hits = injected(noise=share).search(QUERY, 5)
    strange = [hit for hit in hits if hit.passage.id.startswith("other")]
    assert len(strange) == count
    assert len(set(ids(hits))) == 5
    assert all(content_words(hit.passage.text).isdisjoint(content_words(QUERY)) for hit in strange)


def test_a_share_between_whole_numbers_is_kept_to_on_average() -> None:
    counts = []
    for k in range(400):
        retriever = injected(noise=0.3, seed=str(k))
        retriever.search(QUERY, 5)
        counts.append(len(retriever.noise_ids))
    assert set(counts) == {1, 2}
    assert statistics.fmean(counts) == pytest.approx(1.5, abs=0.08)


def test_the_same_seed_and_query_inject_the_same_and_another_seed_does_not() -> None:
    first = ids(injected(noise=0.6, seed="1").search(QUERY, 5))
    other = injected(noise=0.6, seed="1")
    other.search("a ship of Norway", 5)
    assert ids(other.search(QUERY, 5)) == first
    assert ids(injected(noise=0.6, seed="2").search(QUERY, 5)) != first


def test_a_larger_share_injects_what_a_smaller_one_does() -> None:
    drawn = []
    for share in (0.2, 0.4, 0.6, 0.8):
        retriever = injected(noise=share)
        retriever.search(QUERY, 5)
        drawn.append(set(retriever.noise_ids))
    assert drawn[0] < drawn[1] < drawn[2] < drawn[3]


def test_what_helps_is_no_noise() -> None:
    helpful = {f"other{k}" for k in range(297)}
    retriever = injected(noise=0.6, unfit=lambda passage: passage.id in helpful)
    assert {each for each in ids(retriever.search(QUERY, 5)) if each.startswith("other")} == {
        "other297",
        "other298",
        "other299",
    }


def test_a_corpus_without_irrelevant_passages_is_told_of_rather_than_searched_without_noise() -> None:
    with pytest.raises(RetrievalError, match=r"\b0 of 8\b"):
        InjectedRetriever(INDEX, noise=0.4, pool=SHIPS).search(QUERY, 5)


def test_false_versions_take_the_place_of_what_they_falsify() -> None:
    everything = INDEX.search(QUERY, 8)
    retriever = injected(counterfactual=0.25, false_version=false)
    after = retriever.search(QUERY, 8)
    exchanged = [place for place in range(8) if ids(after)[place] != ids(everything)[place]]
    assert len(exchanged) == 2
    for place in exchanged:
        assert ids(after)[place] == f"not-{ids(everything)[place]}"
        assert after[place].score == everything[place].score
    assert set(retriever.false_ids) == {ids(after)[place] for place in exchanged}


def test_further_false_passages_fill_the_places_that_are_left() -> None:
    more = [Passage(f"lie{k}", "", "the ship sank") for k in range(3)]
    retriever = injected(counterfactual=0.625, false_version=false, false_passages=[*more, false(SHIPS[0])])
    after = ids(retriever.search(QUERY, 8))
    assert {each for each in after if each.startswith("not-")} == {"not-ship0", "not-ship1", "not-ship2"}
    assert sum(each.startswith("lie") for each in after) == 2
    assert len(set(after)) == 8


def test_a_source_that_lied_in_one_search_lies_in_the_next() -> None:
    retriever = injected(counterfactual=0.125, false_version=false)
    for query in (QUERY, "a ship with its crew", "the crew that sailed a ship"):
        retriever.search(query, 8)
    assert len(retriever.false_ids) == 1


def test_both_go_side_by_side_without_taking_each_others_places() -> None:
    retriever = injected(noise=0.5, counterfactual=0.375, false_version=false)
    after = ids(retriever.search(QUERY, 8))
    assert sum(each.startswith("other") for each in after) == 4
    assert sum(each.startswith("not-") for each in after) == 3


@pytest.mark.parametrize("shares", [{"noise": -0.1}, {"noise": 1.1}, {"counterfactual": float("nan")}])
def test_what_is_no_share_is_refused(shares: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match="Give 0 to 1"):
        injected(**shares)
