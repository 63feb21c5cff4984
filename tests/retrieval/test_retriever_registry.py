"""Retrievers that are chosen by name: over every source of passages, and around another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import beliefrag
from beliefrag.errors import SettingsError
from beliefrag.policy import ScoreScale
from beliefrag.registry import Registry
from beliefrag.retrieval import (
    IGNORE_SCORES,
    RETRIEVERS,
    Bm25Index,
    PassageSource,
    Retriever,
    check_retriever,
    known_identity,
    open_retriever,
)
from beliefrag.types import Hit, Passage

FRAM = Passage("fram", "Fram", "The Fram was designed by Colin Archer.")


class Elsewhere:
    """An engine elsewhere: it needs no passages from here."""

    identity = "elsewhere"
    score_scale = IGNORE_SCORES

    def search(self, query: str, k: int) -> list[Hit]:
        return [Hit(FRAM, 0.7)][:k]


@dataclass(frozen=True, slots=True)
class ElsewhereOptions:
    url: str = ""


@pytest.fixture
def retrievers() -> Iterator[Registry[Retriever, PassageSource]]:
    registry: Registry[Retriever, PassageSource] = Registry("retriever", "beliefrag.test_retrievers", {})

    @registry.register("elsewhere", title="Elsewhere", summary="Searches a server.", options=ElsewhereOptions)
    def open_elsewhere(options: ElsewhereOptions, source: PassageSource) -> Retriever:
        return Elsewhere()

    @registry.register("silent", title="Silent", summary="Does not say how to read its scores.")
    def open_silent(options: object, source: PassageSource) -> Retriever:
        source.open_index()
        return type("Silent", (), {"identity": "cosine", "search": Elsewhere.search})()  # type: ignore[no-any-return]

    yield registry


@pytest.mark.parametrize("kind", ["passages", "index", "docs"])
def test_bm25_searches_every_source_of_passages_alike(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "fram.jsonl").write_text('{"id": "fram", "title": "Fram", "text": "' + FRAM.text + '"}\n')
    if kind == "index":
        beliefrag.index(tmp_path / "fram.jsonl", tmp_path / "made")
    source = {
        "passages": lambda: PassageSource(passages=[FRAM]),
        "index": lambda: PassageSource(index=tmp_path / "made"),
        "docs": lambda: PassageSource(docs=tmp_path / "fram.jsonl"),
    }[kind]()
    choice = RETRIEVERS.choose("bm25")
    assert not source.is_used and source.fingerprint is None
    retriever = open_retriever(choice, source)
    in_memory = Bm25Index.in_memory([FRAM])
    assert [hit.passage.id for hit in retriever.search("Who designed the Fram?", 3)] == ["fram"]
    assert retriever.identity == known_identity(choice) == Bm25Index.identity
    assert retriever.score_scale == in_memory.score_scale
    assert source.fingerprint == in_memory.fingerprint
    assert (source.report is not None) == (kind == "docs")
    assert (source.folder is None) == (kind == "passages")
    assert source.open_index() is source.open_index()


def test_bm25_without_passages_is_refused_with_what_to_give() -> None:
    with pytest.raises(SettingsError) as refused:
        open_retriever(RETRIEVERS.choose("bm25"), PassageSource())
    assert "beliefrag index" in refused.value.remedy


def test_only_one_source_of_passages_can_be_given(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="2"):
        PassageSource(docs=tmp_path, passages=[FRAM])


def test_an_engine_elsewhere_needs_no_passages_and_refuses_those_it_would_not_use(
    retrievers: Registry[Retriever, PassageSource], tmp_path: Path
) -> None:
    choice = retrievers.choose("elsewhere:url=http://localhost:9200")
    assert known_identity(choice) is None
    assert open_retriever(choice, PassageSource()).search("anything", 1) == [Hit(FRAM, 0.7)]
    with pytest.raises(SettingsError, match=rf"'elsewhere'.*{tmp_path}"):
        open_retriever(choice, PassageSource(docs=tmp_path))


def test_a_retriever_that_does_not_say_how_to_read_its_scores_is_refused(
    retrievers: Registry[Retriever, PassageSource],
) -> None:
    with pytest.raises(SettingsError, match="Silent") as refused:
        open_retriever(retrievers.choose("silent"), PassageSource(passages=[FRAM]))
    assert "score_scale" in refused.value.remedy and "IGNORE_SCORES" in refused.value.remedy
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("missing", "named"), [("search", "search"), ("identity", "identity")])
def test_what_is_no_retriever_is_told_what_it_lacks(missing: str, named: str) -> None:
    members = {"search": Elsewhere.search, "identity": None, "score_scale": ScoreScale(1.0, 1.0)}
    assert check_retriever(type("Whole", (), members)())
    with pytest.raises(SettingsError, match="Part") as refused:
        check_retriever(type("Part", (), {name: value for name, value in members.items() if name != missing})())
    assert named in refused.value.remedy
