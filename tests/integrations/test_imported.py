"""Retrievers of other libraries by their import path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from beliefrag.errors import SettingsError
from beliefrag.policy import ScoreScale
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever

MODULE = """
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from beliefrag import Hit, Passage

class Chain(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(id="c", page_content=f"chain {query}")]

class Llama(LlamaRetriever):
    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(id_="l", text="llama"), score=0.7)]

class Own:
    identity, score_scale = "own", None
    def search(self, query, k):
        return [Hit(Passage("o", "", "own"), 1.0)]

chain = Chain()
own = Own()
nothing = 3

def make_llama():
    return Llama()

def fail():
    raise OSError("no such store")
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_search_of_tests.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_search_of_tests", raising=False)


@pytest.mark.parametrize(("name", "found"), [("chain", "c"), ("make_llama", "l"), ("own", "o")])
def test_a_retriever_is_found_by_its_import_path(name: str, found: str) -> None:
    choice = RETRIEVERS.choose(f"imported:path=my_search_of_tests:{name}")
    assert [hit.passage.id for hit in open_retriever(choice, PassageSource()).search("x", 3)] == [found]


def test_its_scores_are_read_as_the_options_say() -> None:
    choice = RETRIEVERS.choose("imported:path=my_search_of_tests:make_llama,location=0.5,scale=0.1,identity=mine")
    opened = open_retriever(choice, PassageSource())
    assert (opened.score_scale, opened.identity) == (ScoreScale(0.5, 0.1), "mine")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("nowhere", "not an import path"),
        ("my_search_of_tests:gone", "gone"),
        ("my_search_of_tests:fail", "no such store"),
    ],
)
def test_what_cannot_be_imported_is_named(path: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        open_retriever(RETRIEVERS.choose(f"imported:path={path}"), PassageSource())


def test_what_is_no_retriever_is_refused() -> None:
    with pytest.raises(SettingsError, match="not a retriever"):
        open_retriever(RETRIEVERS.choose("imported:path=my_search_of_tests:nothing"), PassageSource())
