"""Hybrid retrieval on an engine elsewhere: it ranks by BM25 and by vectors, and the two rankings are joined here.

Milvus can join them itself (`hybrid_search`), and its sums are right. But among equal scores it takes the order in
which passages were stored, so that two collections with the same passages answer differently; and it does not say
which ranking found a passage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.dense.embedding_model import EmbeddingModel
from beliefrag.retrieval.dense.rank_joining import DEPTH, join_by_ranks
from beliefrag.retrieval.engines.engine import EngineDescription, IndexState
from beliefrag.retrieval.engines.engine_retriever import EngineRetriever
from beliefrag.retrieval.protocol import IGNORE_SCORES, check_depth
from beliefrag.types import Hit, Passage, Provenance

__all__ = ["EngineHybridRetriever", "VectorSearch"]


class VectorSearch(Protocol):
    """What an engine that holds vectors can do besides."""

    vector_ranking: str
    """Names the ranking by vectors."""

    def find_nearest_ids(self, vector: NDArray[np.float32], limit: int) -> tuple[list[tuple[str, float]], IndexState]:
        """Gives ids and scores of the nearest passages, nearest first, and the state of the index."""
        ...


@dataclass(frozen=True)
class EngineHybridRetriever:
    """Joins the BM25 of an engine and its search by vectors by the ranks that a passage has in both."""

    words: EngineRetriever
    """Searches the same index by BM25."""
    nearest: VectorSearch
    model: EmbeddingModel

    score_scale = IGNORE_SCORES

    @property
    def identity(self) -> str:
        """Names both rankings."""
        return f"hybrid of {self.words.identity} and {self.nearest.vector_ranking}"

    @property
    def description(self) -> EngineDescription:
        """Which engine and index are searched."""
        return self.words.description

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the passages as they were when the index was opened."""
        return self.words.fingerprint

    def __len__(self) -> int:
        return len(self.words)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Returns the k passages that stand highest in both searches together; equal ones by id.

        Raises:
            RetrievalError: k is negative, a search failed, or the index has changed.
        """
        check_depth(k)
        if not k or not query.strip():
            return []
        depth = max(k, DEPTH)
        vector = self.model.embed([query])[0]
        joined = join_by_ranks(
            {
                "search": self.words.search_ids(query, depth),
                "dense": self.words.rank(lambda limit: self.nearest.find_nearest_ids(vector, limit), depth),
            },
            k,
        )
        passages = self.get(each.id for each in joined)
        return [Hit(passage, each.score, Provenance(each.ways)) for each, passage in zip(joined, passages, strict=True)]

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Returns the passages with these ids, in the order given, by one lookup.

        Raises:
            RetrievalError: One of them is not in the index.
        """
        return self.words.get(ids)

    def close(self) -> None:
        """Lets the connections go."""
        self.words.close()
