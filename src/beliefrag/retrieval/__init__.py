"""Finding passages: an embedded BM25 engine, readers for documents, and the protocol that any other engine can meet.

`index_paths` turns files into an index, `Bm25Index` searches one, `IndexWriter` changes one passage by passage, and
`docs_index` gives a ready index for documents that somebody points at. `InjectedRetriever` makes any retriever
imperfect on purpose.
"""

from beliefrag.retrieval.docs_cache import docs_index, docs_index_path
from beliefrag.retrieval.engine import Bm25Index
from beliefrag.retrieval.files import Skipped
from beliefrag.retrieval.indexing import EmptyCorpus, index_paths
from beliefrag.retrieval.injection import InjectedRetriever
from beliefrag.retrieval.ledger import IndexUnusable
from beliefrag.retrieval.protocol import Retriever
from beliefrag.retrieval.report import IndexProgress, IndexReport, OnProgress
from beliefrag.retrieval.session import IndexBusy
from beliefrag.retrieval.writer import Change, IndexWriter

__all__ = [
    "Bm25Index",
    "Change",
    "EmptyCorpus",
    "IndexBusy",
    "IndexProgress",
    "IndexReport",
    "IndexUnusable",
    "IndexWriter",
    "InjectedRetriever",
    "OnProgress",
    "Retriever",
    "Skipped",
    "docs_index",
    "docs_index_path",
    "index_paths",
]
