"""Dense retrieval, and its union with BM25 by ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from beliefrag.errors import RetrievalError
from beliefrag.paths import cache_dir
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.dense.embedder import Embed, GgufEmbedder
from beliefrag.retrieval.dense.vectors import PassageVectors, open_vectors
from beliefrag.retrieval.protocol import IGNORE_SCORES, RETRIEVERS, check_depth
from beliefrag.types import Hit, Provenance

if TYPE_CHECKING:
    from beliefrag.retrieval.passage_source import PassageSource

__all__ = ["DEFAULT_WEIGHTS", "DenseOptions", "DenseRetriever", "HybridRetriever"]

DEFAULT_WEIGHTS = "all-minilm-l6-v2"
"""The weights that `beliefrag model pull` fetches for dense retrieval."""

_DEPTH = 100
"""How many hits of each search are joined."""
_FLATTEN = 60
"""A hit at rank r counts 1 / (60 + r): the constant that the method was published with."""


@dataclass(frozen=True)
class DenseRetriever:
    """Finds the passages whose vectors are nearest to that of the query. Scores are cosines, and have no say."""

    index: Bm25Index
    embed: Embed
    vectors: PassageVectors
    ids: Sequence[str] = field(repr=False)
    model: str

    score_scale = IGNORE_SCORES

    @property
    def identity(self) -> str:
        """Names the model."""
        return f"dense {self.model}"

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Returns the k nearest passages, nearest first.

        Raises:
            RetrievalError: k is negative, or the model failed.
        """
        check_depth(k)
        if not query.strip() or not k:
            return []
        places, cosines = self.vectors.nearest(self.embed([query])[0], k)
        passages = self.index.get([self.ids[place] for place in places])
        return [Hit(passage, cosine) for passage, cosine in zip(passages, cosines, strict=True)]


@dataclass(frozen=True)
class HybridRetriever:
    """Joins BM25 and dense retrieval by the ranks that a passage has in both."""

    dense: DenseRetriever

    score_scale = IGNORE_SCORES

    @property
    def identity(self) -> str:
        """Names both rankings."""
        return f"hybrid of {Bm25Index.identity} and {self.dense.identity}"

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Returns the k passages that stand highest in both searches together.

        Raises:
            RetrievalError: k is negative, or a search failed.
        """
        check_depth(k)
        depth = max(k, _DEPTH)
        score: dict[str, float] = {}
        found = {}
        ways: dict[str, list[str]] = {}
        for way, hits in (
            ("search", self.dense.index.search(query, depth)),
            ("dense", self.dense.search(query, depth)),
        ):
            for rank, hit in enumerate(hits, start=1):
                score[hit.passage.id] = score.get(hit.passage.id, 0.0) + 1 / (_FLATTEN + rank)
                found[hit.passage.id] = hit.passage
                ways.setdefault(hit.passage.id, []).append(way)
        best = sorted(score, key=lambda one: (-score[one], one))[:k]
        return [Hit(found[one], score[one], Provenance("+".join(ways[one]))) for one in best]


@dataclass(frozen=True, slots=True)
class DenseOptions:
    """The options of dense and hybrid retrieval."""

    weights: str = ""
    """A file with an embedding model in GGUF format; by default the one that `beliefrag model pull` fetches."""

    @property
    def path(self) -> Path:
        """Where the weights lie.

        Raises:
            RetrievalError: They are not on this machine.
        """
        if self.weights:
            return Path(self.weights)
        path = cache_dir() / "models" / f"{DEFAULT_WEIGHTS}.gguf"
        if not path.is_file():
            raise RetrievalError(
                f"The weights of {DEFAULT_WEIGHTS}, which dense retrieval needs, are not on this machine.",
                remedy=f"Get them with `beliefrag model pull {DEFAULT_WEIGHTS}` (25 MB), or name a file: "
                "--retriever dense:weights=FILE.gguf",
            )
        return path


@lru_cache(maxsize=2)
def _embedder(path: Path) -> tuple[GgufEmbedder, str]:
    embedder = GgufEmbedder(path)
    with path.open("rb") as file:
        return embedder, f"{path.stem} {hashlib.file_digest(file, 'sha256').hexdigest()[:8]}"


def _open(options: DenseOptions, source: PassageSource) -> DenseRetriever:
    embed, model = _embedder(options.path.resolve())
    index = source.open_index()
    vectors, ids = open_vectors(index, embed, model, cache_dir())
    return DenseRetriever(index, embed, vectors, ids, model)


@RETRIEVERS.register(
    "dense",
    title="Dense",
    summary="Searches by meaning with vectors of a small embedding model.",
    options=DenseOptions,
)
def _open_dense(options: DenseOptions, source: PassageSource) -> DenseRetriever:
    return _open(options, source)


@RETRIEVERS.register(
    "hybrid",
    title="Hybrid",
    summary="Joins BM25 and dense retrieval by ranks.",
    options=DenseOptions,
)
def _open_hybrid(options: DenseOptions, source: PassageSource) -> HybridRetriever:
    return HybridRetriever(_open(options, source))
