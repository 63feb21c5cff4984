"""Find passages: the protocol of a retriever, the embedded BM25 engine, and readers for documents.

`index_paths` turns files into an index, `Bm25Index` searches one, `IndexWriter` changes one passage by passage, and
`docs_index` opens an up-to-date index of documents. `RETRIEVERS` holds all retrievers that can be chosen by name;
`open_retriever` opens one over a `PassageSource`. `InjectedRetriever` makes any retriever imperfect on purpose.
"""

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
    upgrade_index,
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
    "upgrade_index",
]
