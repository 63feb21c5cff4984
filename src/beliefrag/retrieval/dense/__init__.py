"""Search by meaning: vectors of a small model in the runtime that answers too, alone or joined with BM25.

`embedder` turns texts into vectors, `vectors` keeps those of a corpus, and `retriever` searches them.
"""

from beliefrag.retrieval.dense.dense_retriever import DenseOptions, DenseRetriever, HybridRetriever
from beliefrag.retrieval.dense.embedder import Embed, GgufEmbedder
from beliefrag.retrieval.dense.vectors import PassageVectors, open_vectors

__all__ = [
    "DenseOptions",
    "DenseRetriever",
    "Embed",
    "GgufEmbedder",
    "HybridRetriever",
    "PassageVectors",
    "open_vectors",
]
