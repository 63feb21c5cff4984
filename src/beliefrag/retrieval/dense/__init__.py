"""Search by meaning: vectors of a small embedding model, alone or joined with BM25.

`embedder` (in the runtime that answers too) and `onnx_embedder` (with the extra beliefrag[dense]) turn texts into
vectors, `embedding_model` says which of them does, `vectors` keeps those of a corpus, `dense_retriever` searches them.
"""

from beliefrag.retrieval.dense.dense_retriever import DenseRetriever, HybridRetriever
from beliefrag.retrieval.dense.embedder import Embed, GgufEmbedder
from beliefrag.retrieval.dense.embedding_model import DenseOptions, EmbeddingModel, load_model
from beliefrag.retrieval.dense.vectors import PassageVectors, open_vectors, write_vectors

__all__ = [
    "DenseOptions",
    "DenseRetriever",
    "Embed",
    "EmbeddingModel",
    "GgufEmbedder",
    "HybridRetriever",
    "PassageVectors",
    "load_model",
    "open_vectors",
    "write_vectors",
]
