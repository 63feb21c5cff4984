"""Search by vectors: nearest first, kept in the cache, used again after a change, joined with BM25 by ranks."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from beliefrag.errors import RetrievalError
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.dense.dense_retriever import DenseRetriever, HybridRetriever
from beliefrag.retrieval.dense.embedding_model import EmbeddingModel, open_embedder
from beliefrag.retrieval.dense.vectors import PassageVectors, open_vectors
from beliefrag.types import Passage
from tests.support.embedding import WordVectors, pull_weights


def open_dense(passages: list[Passage], cache: Path, embed: WordVectors) -> DenseRetriever:
    index = Bm25Index.in_memory(passages)
    model = EmbeddingModel("words", embed)
    vectors, ids = open_vectors(index, model, cache)
    return DenseRetriever(index, model, vectors, ids)


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
    for file in tmp_path.rglob("vectors.npy"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:-2])
    assert open_dense(shelf, tmp_path, embed).search("engineer", 3) == expected


def test_vectors_of_a_killed_process_are_used_again(tmp_path: Path) -> None:
    passages = [Passage(f"p{number:03}", "", f"harbour number {number}") for number in range(100)]
    index = Bm25Index.in_memory(passages)
    script = """
        import os, signal, sys
        from pathlib import Path
        from beliefrag.retrieval.bm25 import Bm25Index
        from beliefrag.retrieval.dense.embedding_model import EmbeddingModel
        from beliefrag.retrieval.dense.vectors import open_vectors
        from beliefrag.types import Passage
        from tests.support.embedding import WordVectors

        class Killed(WordVectors):
            def __call__(self, texts):
                if self.texts > 40:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().__call__(texts)

        passages = [Passage(f"p{number:03}", "", f"harbour number {number}") for number in range(100)]
        open_vectors(Bm25Index.in_memory(passages), EmbeddingModel("words", Killed()), Path(sys.argv[1]))
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], check=False)
    assert ran.returncode == -9
    (written,) = tmp_path.rglob("made")
    with written.open("ab") as file:
        # What a kill in the middle of a write leaves.
        file.write(b"half of a record")
    embed = WordVectors()
    resumed, _ = open_vectors(index, EmbeddingModel("words", embed), tmp_path)
    assert embed.texts == 100 - 48
    whole, _ = open_vectors(index, EmbeddingModel("words", embed), tmp_path / "other")
    assert resumed.vectors.tobytes() == whole.vectors.tobytes()
    assert not [each for each in tmp_path.rglob("*") if each.name == "made" or each.name.startswith("new-")]


def test_equal_cosines_are_ordered_by_key() -> None:
    keys = np.array([5, 3, 9, 1], np.int64)
    vectors = PassageVectors(keys, np.array([[1, 0], [1, 0], [0, 1], [1, 0]], np.float16))
    places, _ = vectors.nearest(np.array([1, 0], np.float32), 2)
    assert keys[places].tolist() == [1, 3]


def test_vectors_beyond_those_kept_wide_are_found_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    made = np.random.default_rng(1).standard_normal((50, 8)).astype(np.float16)
    whole = PassageVectors(np.arange(50), made).nearest(made[7].astype(np.float32), 5)
    monkeypatch.setattr("beliefrag.retrieval.dense.vectors._SEARCHED_TOGETHER", 16)
    monkeypatch.setattr("beliefrag.retrieval.dense.vectors._KEPT_WIDE", 32)
    cut = PassageVectors(np.arange(50), made)
    for _ in range(2):
        places, cosines = cut.nearest(made[7].astype(np.float32), 5)
        assert places == whole[0] and cosines == pytest.approx(whole[1])


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
    weights = pull_weights()
    embed = open_embedder(weights)
    texts = ["A beacon for ships.", "Bread with butter.", "Which light guides sailors at night?"]
    lamp, meal, question = embed(texts)
    assert float(question @ lamp) > float(question @ meal) + 0.2
    # A vector follows from its text alone: neither its neighbours nor the number of threads change a bit of it.
    alone = open_embedder(weights, threads=1)
    assert [alone([text])[0].tobytes() for text in texts] == [lamp.tobytes(), meal.tobytes(), question.tobytes()]
    assert len(embed([])) == 0
    odd = embed(["word " * 5000, "漢字" * 4000, "\ud800 broken", ""])
    assert np.linalg.norm(odd, axis=1) == pytest.approx([1, 1, 1, 1], abs=1e-4)
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path))
    for name in ("dense", "hybrid"):
        chosen = RETRIEVERS.choose(f"{name}:weights={weights}", {})
        hits = open_retriever(chosen, PassageSource(passages=shelf)).search(
            "an engineer built the lighthouse at the cape", 3
        )
        assert "Lighthouse" in [hit.passage.title for hit in hits]
