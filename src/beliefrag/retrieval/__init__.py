"""Find passages: the protocol of a retriever, the embedded BM25 engine, and readers for documents."""

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
