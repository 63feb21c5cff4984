"""Find passages: the protocol of a retriever, the embedded BM25 engine, and readers for documents.

Each name is loaded when it is first used: a process that only reads files starts in a tenth of the time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beliefrag.policy import ScoreScale
    from beliefrag.retrieval.bm25 import Bm25Index
    from beliefrag.retrieval.indexing import (
        EmptyCorpus,
        IndexProgress,
        IndexReport,
        OnProgress,
        Skipped,
        docs_index,
        docs_index_path,
        index_paths,
    )
    from beliefrag.retrieval.injection import InjectedRetriever
    from beliefrag.retrieval.protocol import (
        IGNORE_SCORES,
        RETRIEVERS,
        PassageSource,
        Retriever,
        check_retriever,
        close_retriever,
        describe_engine,
        known_identity,
        open_retriever,
    )
    from beliefrag.retrieval.store import IndexIncomplete, IndexUnusable
    from beliefrag.retrieval.writer import IndexBusy, IndexWriter, PassageChange

__all__ = [
    "IGNORE_SCORES",
    "RETRIEVERS",
    "Bm25Index",
    "EmptyCorpus",
    "IndexBusy",
    "IndexIncomplete",
    "IndexProgress",
    "IndexReport",
    "IndexUnusable",
    "IndexWriter",
    "InjectedRetriever",
    "OnProgress",
    "PassageChange",
    "PassageSource",
    "Retriever",
    "ScoreScale",
    "Skipped",
    "check_retriever",
    "close_retriever",
    "describe_engine",
    "docs_index",
    "docs_index_path",
    "index_paths",
    "known_identity",
    "open_retriever",
]

_EXPORTS = {
    "policy": "ScoreScale",
    "retrieval.bm25": "Bm25Index",
    "retrieval.indexing": "EmptyCorpus IndexProgress IndexReport OnProgress Skipped docs_index docs_index_path "
    "index_paths",
    "retrieval.injection": "InjectedRetriever",
    "retrieval.protocol": "IGNORE_SCORES RETRIEVERS PassageSource Retriever check_retriever close_retriever "
    "describe_engine known_identity open_retriever",
    "retrieval.store": "IndexIncomplete IndexUnusable",
    "retrieval.writer": "IndexBusy IndexWriter PassageChange",
}


def __getattr__(name: str) -> object:
    for module, names in _EXPORTS.items():
        if name in names.split():
            return getattr(import_module(f"beliefrag.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
