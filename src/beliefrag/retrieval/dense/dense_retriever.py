"""Dense retrieval, and its union with BM25 by ranks (reciprocal rank fusion)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.dense.embedding_model import DenseOptions, EmbeddingModel, load_model
from beliefrag.retrieval.dense.vectors import PassageVectors, open_vectors
from beliefrag.retrieval.filters import Filter
from beliefrag.retrieval.protocol import IGNORE_SCORES, RETRIEVERS, check_depth
from beliefrag.settings import cache_dir
from beliefrag.types import Hit, Provenance

if TYPE_CHECKING:
    from beliefrag.retrieval.protocol import PassageSource

_DEPTH = 100
_FLATTEN = 60
"""A hit at rank r counts 1 / (60 + r): the constant that the method was published with."""


@dataclass(frozen=True)
class DenseRetriever:
    """Finds the passages whose vectors are nearest to that of the query. Decisions ignore its scores, cosines."""

    index: Bm25Index
    model: EmbeddingModel
    vectors: PassageVectors
    ids: Sequence[str] = field(repr=False)

    score_scale = IGNORE_SCORES

    def where(self, wanted: Filter) -> DenseRetriever:
        """Return the same retriever, limited to the passages that a filter describes."""
        index = self.index.where(wanted)
        return replace(self, index=index, vectors=self.vectors.limited_to(index.limited_keys() or []))

    @property
    def identity(self) -> str:
        """Names the model."""
        return f"dense {self.model.name}"

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the k nearest passages, nearest first."""
        check_depth(k)
        if not query.strip() or not k:
            return []
        places, cosines = self.vectors.nearest(self.model.embed([query])[0], k)
        passages = self.index.get([self.ids[place] for place in places])
        return [Hit(passage, cosine) for passage, cosine in zip(passages, cosines, strict=True)]


@dataclass(frozen=True)
class HybridRetriever:
    """Joins BM25 and dense retrieval by the ranks that a passage has in both."""

    dense: DenseRetriever

    score_scale = IGNORE_SCORES

    def where(self, wanted: Filter) -> HybridRetriever:
        """Return the same retriever, limited to the passages that a filter describes."""
        return HybridRetriever(self.dense.where(wanted))

    @property
    def identity(self) -> str:
        """Names both rankings."""
        return f"hybrid of {Bm25Index.identity} and {self.dense.identity}"

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the k passages that rank highest in both searches together; equal ones by id."""
        check_depth(k)
        depth = max(k, _DEPTH)
        found = {"search": self.dense.index.search(query, depth), "dense": self.dense.search(query, depth)}
        passages = {hit.passage.id: hit.passage for hits in found.values() for hit in hits}
        score = dict.fromkeys(passages, 0.0)
        ways: dict[str, list[str]] = {each: [] for each in passages}
        for way, hits in found.items():
            for rank, hit in enumerate(hits, start=1):
                score[hit.passage.id] += 1 / (_FLATTEN + rank)
                ways[hit.passage.id].append(way)
        best = sorted(score, key=lambda each: (-score[each], each))[:k]
        return [Hit(passages[each], score[each], Provenance("+".join(ways[each]))) for each in best]


def open_dense(options: DenseOptions, source: PassageSource) -> DenseRetriever:
    """Open dense retrieval; make the vectors that are missing."""
    model = load_model(options)
    index = source.open_index()
    vectors, ids = open_vectors(index, model, cache_dir())
    return DenseRetriever(index, model, vectors, ids)


@RETRIEVERS.register(
    "dense", title="Dense", summary="Searches by meaning with vectors of a small embedding model.", options=DenseOptions
)
def _open_dense(options: DenseOptions, source: PassageSource) -> DenseRetriever:
    return open_dense(options, source)


@RETRIEVERS.register("hybrid", title="Hybrid", summary="Joins BM25 and dense retrieval by ranks.", options=DenseOptions)
def _open_hybrid(options: DenseOptions, source: PassageSource) -> HybridRetriever:
    return HybridRetriever(open_dense(options, source))
