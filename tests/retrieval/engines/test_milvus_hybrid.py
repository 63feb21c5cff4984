"""Milvus with vectors: the ranking of the local hybrid, and what does not fit is refused in one line."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pymilvus import DataType, Function, FunctionType, MilvusClient

from beliefrag.errors import CorpusError, RetrievalError, SettingsError
from beliefrag.retrieval import RETRIEVERS, Bm25Index, PassageSource, open_retriever
from beliefrag.retrieval.dense import DenseRetriever, EmbeddingModel, HybridRetriever, open_vectors
from beliefrag.retrieval.engines.milvus import MilvusOptions, open_client
from beliefrag.retrieval.indexing import index_paths_to
from beliefrag.types import Passage
from tests.retrieval.engines.test_every_engine import HOSTILE, make_passages
from tests.support.embedding import WordVectors, pull_weights, word_model
from tests.support.engines import MilvusEngine, MilvusHybridEngine, fill


def hybrid_engine(folder: Path, model: EmbeddingModel | None = None, **options: Any) -> MilvusHybridEngine:
    return MilvusHybridEngine(MilvusOptions(url=str(folder / "passages.db"), hybrid=True, **options), model)


def local_hybrid(passages: list[Passage], cache: Path, model: EmbeddingModel) -> HybridRetriever:
    index = Bm25Index.in_memory(passages)
    return HybridRetriever(DenseRetriever(index, model, *open_vectors(index, model, cache)))


def test_it_finds_what_the_local_hybrid_finds(tmp_path: Path) -> None:
    passages = make_passages(150)
    engine = hybrid_engine(tmp_path)
    fill(engine, passages)
    retriever, local = engine.open(), local_hybrid(passages, tmp_path, engine.model)
    for query in ("a bridge over the river", "Painted cities: who painted the king's tower?", "lamp", "zzzunknown"):
        for k in (3, 120):
            found, expected = retriever.search(query, k), local.search(query, k)
            assert [(hit.passage, hit.provenance) for hit in found] == [
                (passage_of(hit.passage.id, passages), hit.provenance) for hit in expected
            ]
            assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected])
    assert retriever.score_scale is None
    assert retriever.identity == f"hybrid of {retriever.words.identity} and dense words"
    assert "statistics by segment" in retriever.identity
    assert str(retriever.description).startswith("passages on Milvus")
    assert retriever.search("  ", 3) == []
    with ThreadPoolExecutor(4) as threads:
        assert [len(hits) for hits in threads.map(lambda query: retriever.search(query, 3), HOSTILE)] == [3] * len(
            HOSTILE
        )
    with engine.write() as writer:
        writer.delete(["p0001"])
    with pytest.raises(RetrievalError, match="changed during the run"):
        retriever.search("river", 3)


def passage_of(name: str, passages: list[Passage]) -> Passage:
    return next(each for each in passages if each.id == name)


def test_a_changed_passage_gets_another_vector_and_one_with_another_source_keeps_its_own(tmp_path: Path) -> None:
    embed = WordVectors()
    engine = hybrid_engine(tmp_path, EmbeddingModel("words", embed))
    with engine.write() as writer:
        writer.put_source("one", [Passage("a", "", "old harbour", "one"), Passage("b", "", "green hill", "one")])
    with engine.write() as writer:
        before = embed.texts
        writer.put_source("two", [Passage("b", "", "green hill", "two")])
    assert embed.texts == before
    with engine.write() as writer:
        writer.add([Passage("a", "", "new tram")])
    retriever = engine.open()
    assert retriever.search("new tram", 2)[0].passage == Passage("a", "", "new tram")
    nearest, _ = retriever.nearest.find_nearest_ids(embed(["new tram"])[0], 2)
    assert (nearest[0][0], round(nearest[0][1], 2)) == ("a", 1)
    nearest, _ = retriever.nearest.find_nearest_ids(embed(["green hill"])[0], 2)
    assert (nearest[0][0], round(nearest[0][1], 2)) == ("b", 1)


def test_vectors_of_another_model_and_none_at_all_are_refused(tmp_path: Path, shelf: list[Passage]) -> None:
    engine = hybrid_engine(tmp_path)
    fill(engine, shelf)
    with pytest.raises(CorpusError, match="compares every vector"):
        hybrid_engine(tmp_path, approximate=True).open()
    other = MilvusHybridEngine(engine.options, word_model(name="other"))
    for open_it in (other.open, lambda: fill(other, shelf)):
        with pytest.raises(CorpusError, match=r"made by words,.* other\b") as caught:
            open_it()
        assert "weights=FILE" in caught.value.remedy
    plain = MilvusEngine(tmp_path / "passages.db")
    assert len(plain.open().search("lighthouse", 3)) == 2, "words alone are searched as ever"
    with pytest.raises(CorpusError, match="holds vectors of words") as caught:
        fill(plain, shelf)
    assert "hybrid=true" in caught.value.remedy
    plain.options = MilvusOptions(url=plain.options.url, collection="plain")
    fill(plain, shelf)
    without = hybrid_engine(tmp_path, collection="plain")
    for open_it in (without.open, lambda: fill(without, shelf)):
        with pytest.raises(CorpusError, match=r"plain .*without vectors") as caught:
            open_it()
        assert "--to milvus" in caught.value.remedy


def test_an_approximate_search_of_vectors_is_named(tmp_path: Path, shelf: list[Passage]) -> None:
    engine = hybrid_engine(tmp_path, approximate=True)
    fill(engine, shelf)
    retriever = engine.open()
    assert retriever.identity.endswith("dense words, approximately by AUTOINDEX")
    assert retriever.search(shelf[0].text, 1)[0].passage == shelf[0]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("weights=x.gguf", "need hybrid=true"),
        ("approximate=true", "need hybrid=true"),
        ("dense=v,text=body,vector=s", "need hybrid=true"),
        ("hybrid=true,linked=true", "linked and hybrid"),
        ("hybrid=true,text=body,vector=s", "dense names"),
        ("hybrid=true,dense=v", "dense names"),
        ("hybrid=true,approximate=true,text=body,vector=s,dense=v", "approximate .*new collection"),
    ],
)
def test_options_that_would_do_nothing_are_refused(given: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        RETRIEVERS.choose(f"milvus:url=x.db,{given}", {})


def make_own_collection(file: Path, passages: list[Passage], vectors: list[list[float]]) -> None:
    """A collection as somebody else would make it: numbers as ids, names of its own, distances in place of cosines."""
    client = MilvusClient(str(file))
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("page", DataType.INT64, is_primary=True)
    schema.add_field("body", DataType.VARCHAR, max_length=2000, enable_analyzer=True)
    schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_field("meaning", DataType.FLOAT_VECTOR, dim=len(vectors[0]))
    schema.add_function(
        Function(
            name="words",
            input_field_names=["body"],
            output_field_names=["sparse"],
            function_type=FunctionType.BM25,
        )
    )
    indexes = client.prepare_index_params()
    indexes.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
    indexes.add_index("meaning", index_name="by_meaning", index_type="FLAT", metric_type="L2")
    client.create_collection("wiki", schema=schema, index_params=indexes)
    client.insert(
        "wiki",
        [
            {"page": number, "body": passage.text, "meaning": vector}
            for number, (passage, vector) in enumerate(zip(passages, vectors, strict=True))
        ],
    )
    client.close()


def test_a_collection_of_the_users_own_is_searched_by_its_dense_field(tmp_path: Path, shelf: list[Passage]) -> None:
    model = word_model()
    make_own_collection(tmp_path / "passages.db", shelf, model.embed([each.text for each in shelf]).tolist())
    own = {"collection": "wiki", "id": "page", "text": "body", "vector": "sparse"}
    retriever = hybrid_engine(tmp_path, model, **own, dense="meaning").open()
    for number, passage in enumerate(shelf):
        best = retriever.search(passage.text, 2)[0]
        assert (best.passage.id, best.passage.text) == (str(number), passage.text)
        assert best.provenance is not None
        assert best.provenance.way == "search+dense"
    assert retriever.identity.endswith("dense words with vectors of meaning by L2")
    with pytest.raises(CorpusError, match="has no field nowhere") as caught:
        hybrid_engine(tmp_path, model, **own, dense="nowhere").open()
    assert "dense=FIELD" in caught.value.remedy
    with pytest.raises(CorpusError, match=r"32-bit .*\bsparse\b.*dense=FIELD"):
        hybrid_engine(tmp_path, model, **own, dense="sparse").open()
    with pytest.raises(CorpusError, match=r"meaning .*\b64 .*words .*\b8\b") as caught:
        hybrid_engine(tmp_path, word_model(8), **own, dense="meaning").open()
    assert "weights=FILE" in caught.value.remedy


@pytest.mark.weights
def test_documents_are_put_into_milvus_with_vectors_of_the_real_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = pull_weights()
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in {"lamp": "A beacon for ships.", "meal": "Bread with butter.", "tram": "A car on rails."}.items():
        (docs / f"{name}.txt").write_text(text)
    with pytest.raises(RetrievalError, match="not on this machine") as caught:
        index_paths_to(docs, f"milvus:url={tmp_path}/p.db,hybrid=true")
    assert "beliefrag model pull" in caught.value.remedy
    place = f"milvus:url={tmp_path}/p.db,hybrid=true,weights={weights}"
    report = index_paths_to(docs, place)
    assert report.passages_total == 3
    question = "Which light guides sailors at night?"
    retriever = open_retriever(RETRIEVERS.choose(place, {}), PassageSource())
    assert retriever.search(question, 1)[0].passage.text == "A beacon for ships."
    assert "and dense all-minilm-l6-v2 " in str(retriever.identity)
    # Passages that are given get a collection of their own, which is named after them and the model.
    given = open_retriever(RETRIEVERS.choose(f"{place},fill=true", {}), PassageSource(docs=docs))
    assert [hit.passage for hit in given.search(question, 3)] == [hit.passage for hit in retriever.search(question, 3)]
    assert given.identity == retriever.identity


def test_the_client_library_writes_no_traceback_beside_our_line(tmp_path: Path) -> None:
    options, ours = MilvusOptions(url=str(tmp_path / "passages.db")), logging.getLogger("beliefrag")
    level = ours.level
    try:
        ours.setLevel(logging.DEBUG)
        open_client(options).close()
        assert logging.getLogger("pymilvus.decorators").isEnabledFor(logging.ERROR)
        ours.setLevel(logging.WARNING)
        open_client(options).close()
        assert not logging.getLogger("pymilvus.decorators").isEnabledFor(logging.ERROR)
    finally:
        ours.setLevel(level)
