"""Search by vectors: nearest first, kept in the cache, used again after a change, joined with BM25 by ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from beliefrag.errors import RetrievalError
from beliefrag.hub import DownloadError
from beliefrag.models.weights.download import pull
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.dense import DenseRetriever, GgufEmbedder, HybridRetriever, PassageVectors, open_vectors
from beliefrag.types import Passage


class WordVectors:
    """A real, if simple, embedding: the sum of one fixed random direction for each word. Counts its texts."""

    def __init__(self) -> None:
        self.texts = 0

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        rows = np.stack([sum((self._word(word) for word in text.lower().split()), np.zeros(64)) for text in texts])
        result: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return result

    @staticmethod
    def _word(word: str) -> NDArray[np.float64]:
        seed = int.from_bytes(hashlib.sha256(word.strip(".,?").encode()).digest()[:4])
        return np.random.default_rng(seed).normal(size=64)


def open_dense(passages: list[Passage], cache: Path, embed: WordVectors) -> DenseRetriever:
    index = Bm25Index.in_memory(passages)
    vectors, ids = open_vectors(index, embed, "words", cache)
    return DenseRetriever(index, embed, vectors, ids, "words")


def test_the_nearest_passages_come_first(tmp_path: Path, shelf: list[Passage]) -> None:
    retriever = open_dense(shelf, tmp_path, WordVectors())
    for passage in shelf:
        hits = retriever.search(f"{passage.title}. {passage.text}", 3)
        assert hits[0].passage == passage
        assert hits[0].score == pytest.approx(1, abs=1e-3)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert retriever.search(" ", 5) == []
    assert len(retriever.search("lighthouse", 100)) == len(shelf)
    with pytest.raises(RetrievalError, match="-1"):
        retriever.search("lighthouse", -1)


def test_vectors_are_made_once_and_a_change_costs_what_changed(tmp_path: Path, shelf: list[Passage]) -> None:
    embed = WordVectors()
    before = open_dense(shelf, tmp_path, embed)
    assert embed.texts == len(shelf)
    again = open_dense(shelf, tmp_path, embed)
    assert embed.texts == len(shelf)
    assert [hit.passage.id for hit in again.search("a tower", 4)] == [
        hit.passage.id for hit in before.search("a tower", 4)
    ]
    changed = [Passage(shelf[0].id, shelf[0].title, "It fell into the sea."), *shelf[1:]]
    embed.texts = 0
    after = open_dense(changed, tmp_path, embed)
    assert embed.texts == 1
    assert after.search("It fell into the sea.", 1)[0].passage == changed[0]


def test_damaged_vectors_are_made_again(tmp_path: Path, shelf: list[Passage]) -> None:
    embed = WordVectors()
    expected = open_dense(shelf, tmp_path, embed).search("engineer", 3)
    for file in tmp_path.rglob("vectors"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:-2])
    assert open_dense(shelf, tmp_path, embed).search("engineer", 3) == expected


def test_equal_cosines_do_not_depend_on_the_order_of_indexing() -> None:
    keys = np.array([5, 3, 9, 1], np.int64)
    vectors = PassageVectors(keys, np.array([[1, 0], [1, 0], [0, 1], [1, 0]], np.float16))
    places, _ = vectors.nearest(np.array([1, 0], np.float32), 2)
    assert keys[places].tolist() == [1, 3]


def test_hybrid_joins_both_searches_by_ranks(tmp_path: Path, shelf: list[Passage]) -> None:
    dense = open_dense(shelf, tmp_path, WordVectors())
    hybrid = HybridRetriever(dense)
    query = "Where did the engineer of the lighthouse study?"
    ranks: dict[str, float] = {}
    for hits in (dense.index.search(query, 100), dense.search(query, 100)):
        for rank, hit in enumerate(hits, start=1):
            ranks[hit.passage.id] = ranks.get(hit.passage.id, 0) + 1 / (60 + rank)
    found = hybrid.search(query, 4)
    assert [hit.passage.id for hit in found] == sorted(ranks, key=lambda one: (-ranks[one], one))[:4]
    assert found[0].score == pytest.approx(max(ranks.values()))
    assert found[0].provenance is not None
    assert "hybrid" in hybrid.identity
    assert "words" in hybrid.identity


@pytest.mark.parametrize("name", ["dense", "hybrid"])
def test_missing_weights_say_how_to_get_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shelf: list[Passage]
) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path))
    with pytest.raises(RetrievalError) as caught:
        open_retriever(RETRIEVERS.choose(name, {}), PassageSource(passages=shelf))
    assert "beliefrag model pull all-minilm-l6-v2" in caught.value.remedy
    with pytest.raises(RetrievalError, match="nowhere"):
        open_retriever(RETRIEVERS.choose(f"{name}:weights={tmp_path}/nowhere.gguf", {}), PassageSource(passages=shelf))


@pytest.mark.weights
def test_the_real_model_finds_by_meaning_and_reads_any_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shelf: list[Passage]
) -> None:
    try:
        weights = pull("all-minilm-l6-v2")
    except DownloadError as error:
        pytest.skip(f"the weights all-minilm-l6-v2 cannot be had: {error.message}")
    embed = GgufEmbedder(weights)
    lamp, meal, question = embed(["A beacon for ships.", "Bread with butter.", "Which light guides sailors at night?"])
    assert float(question @ lamp) > float(question @ meal) + 0.2
    odd = embed(["word " * 5000, "漢字" * 4000, "\ud800 broken", ""])
    assert np.linalg.norm(odd, axis=1) == pytest.approx([1, 1, 1, 1], abs=1e-4)
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path))
    for name in ("dense", "hybrid"):
        chosen = RETRIEVERS.choose(f"{name}:weights={weights}", {})
        hits = open_retriever(chosen, PassageSource(passages=shelf)).search(
            "an engineer built the lighthouse at the cape", 3
        )
        assert "Lighthouse" in [hit.passage.title for hit in hits]
