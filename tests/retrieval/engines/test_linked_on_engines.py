"""Linked retrieval over every engine finds what it finds over the embedded one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from beliefrag.errors import RetrievalError, SettingsError
from beliefrag.retrieval import Bm25Index
from beliefrag.retrieval.engines.engine_retriever import EngineRetriever, link_engine
from beliefrag.retrieval.linked.linked_retriever import LinkedRetriever, graph_in_memory
from beliefrag.retrieval.linked.ranking import load_ranker
from beliefrag.types import Hit, Passage
from tests.support.engines import RemoteEngine

QUESTIONS = [
    "Who built the lighthouse at Cape Bruna, and where did she study?",
    "What lights the lamps of the towers?",
    "On which river does the city lie where Ada Quill studied?",
]
ASKED = "Who built the lighthouse at the cape, and where did she study?"
NOTES = [Passage(f"x{number:02}", f"Note {number}", f"{ASKED} {'more ' * number}") for number in range(22)]
"""They push what else answers beyond the reach of a search by words."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))


def found(hits: Sequence[Hit]) -> list[tuple[object, ...]]:
    return [(hit.passage, round(hit.score, 4), hit.provenance) for hit in hits]


def test_linked_retrieval_finds_the_same_on_every_engine(remote: RemoteEngine, shelf: list[Passage]) -> None:
    remote.fill(shelf)
    opened = remote.open()
    embedded = Bm25Index.in_memory(shelf)
    expected = LinkedRetriever(embedded, graph_in_memory(embedded), load_ranker())
    linked = link_engine(opened)
    for question in QUESTIONS:
        assert found(linked.search(question, 5)) == found(expected.search(question, 5))
    remote.fill([*shelf, *NOTES])
    further = link_engine(remote.open())
    hits = [hit for question in QUESTIONS for hit in further.search(question, 20)]
    assert {hit.provenance.way for hit in hits if hit.provenance} > {"search"}, "names lead beyond the search"
    assert linked.identity.startswith("linked ")
    assert opened.identity in linked.identity


def test_an_index_that_changes_stops_linked_retrieval_too(remote: RemoteEngine, shelf: list[Passage]) -> None:
    remote.fill(shelf)
    opened = remote.open()
    linked = link_engine(opened)
    linked.search(QUESTIONS[0], 3)
    remote.fill(shelf[1:])
    with pytest.raises(RetrievalError, match="changed during the run"):
        linked.search(QUESTIONS[0], 3)
    with pytest.raises(SettingsError, match="changes=follow"):
        link_engine(EngineRetriever(opened.engine, follow_changes=True))
