"""Search by meaning: vectors of a small embedding model, alone or joined with BM25."""

from beliefrag.retrieval.dense.dense_retriever import DenseRetriever, HybridRetriever
from beliefrag.retrieval.dense.embedding_model import DenseOptions, Embed, EmbeddingModel, load_model
from beliefrag.retrieval.dense.vectors import PassageVectors, open_vectors, write_vectors

__all__ = [
    "DenseOptions",
    "DenseRetriever",
    "Embed",
    "EmbeddingModel",
    "HybridRetriever",
    "PassageVectors",
    "load_model",
    "open_vectors",
    "write_vectors",
]
