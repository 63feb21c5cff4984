"""A LangChain retriever or vector store that searches for BeliefRAG."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from beliefrag.errors import BeliefRAGError, RetrievalError, SettingsError
from beliefrag.integrations.passages import foreign_passage
from beliefrag.integrations.scores import UNKNOWN_SCALE, Scored, hits_of
from beliefrag.policy import ScoreScale
from beliefrag.types import Hit, Passage

__all__ = ["FromLangChain", "StoreScores"]

StoreScores = Literal["relevance", "similarity", "distance", "rank"]

_TITLES = ("title", "Title")
_SOURCES = ("source", "url", "file_path")


class FromLangChain:
    """Any LangChain retriever or vector store, as a retriever of ours: `BeliefRAG(retriever=FromLangChain(store))`.

    A passage's id is the document's, or else a hash of its title and text. A retriever decides itself how many
    documents it returns (a `VectorStoreRetriever` is told how many are wanted): let it return as many as the budget's
    `top_k`. LangChain retrievers give no scores, so ranks stand in for them, unless `score_key` says where in the
    metadata a score is. A vector store gives scores; what they mean, only its owner knows.

    Args:
        source: The retriever or vector store.
        scores: For a vector store: "relevance" (LangChain's scores from 0 to 1, where the store has them),
            "similarity" (the store's own, higher is better), "distance" (its own, lower is better; they are negated) or
            "rank" (none).
        score_key: For a retriever: the metadata entry that holds a score, such as a reranker's "relevance_score".
            Higher must be better.
        scale: Where the scores lie, for the relevance diagnostic; see `measured_scale`. Without it relevance is held
            at one half, whatever the scores.
        identity: Names the ranking (engine, embedding, settings). With it, a calibration that was fitted with another
            ranking is refused; without it, it is used with a note that says so.

    Raises:
        SettingsError: The options do not fit the source.
    """

    def __init__(
        self,
        source: BaseRetriever | VectorStore,
        *,
        scores: StoreScores | None = None,
        score_key: str | None = None,
        scale: ScoreScale | None = None,
        identity: str | None = None,
    ) -> None:
        if not isinstance(source, BaseRetriever | VectorStore):
            raise SettingsError(
                f"A {type(source).__name__} is neither a LangChain retriever nor a vector store.",
                remedy="Give a BaseRetriever or a VectorStore.",
            )
        is_store = isinstance(source, VectorStore)
        if is_store and score_key is not None:
            raise SettingsError("score_key is for retrievers.", remedy="For a vector store, give scores.")
        if not is_store and scores is not None:
            raise SettingsError("scores is for vector stores.", remedy="For a retriever, give score_key.")
        if scale is not None and (scores == "rank" or (not is_store and score_key is None)):
            raise SettingsError("Ranks need no scale.", remedy="Say where the scores are, or leave the scale out.")
        self._source = source
        self._scores: StoreScores = scores or "relevance"
        self._score_key = score_key
        self._scaled = scale is not None
        self.score_scale = scale or UNKNOWN_SCALE
        self.identity = identity

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k passages, in LangChain's order.

        Raises:
            RetrievalError: LangChain, or what stands behind it, failed.
        """
        try:
            found = self._found(query, k)
            return hits_of(found, k, scores_needed=self._scaled)
        except BeliefRAGError:
            raise
        except Exception as error:
            name = type(self._source).__name__
            raise RetrievalError(
                f"The search with LangChain's {name} failed, {type(error).__name__}: {error}.",
                remedy=self._remedy(error),
            ) from error

    def _found(self, query: str, k: int) -> Iterable[Scored]:
        if isinstance(self._source, VectorStore):
            return self._from_store(self._source, query, k)
        # Other retrievers take no such argument: they know their number themselves.
        wanted = {"k": k} if isinstance(self._source, VectorStoreRetriever) else {}
        return [(_passage(document), self._noted(document)) for document in self._source.invoke(query, None, **wanted)]

    def _from_store(self, store: VectorStore, query: str, k: int) -> Iterable[Scored]:
        match self._scores:
            case "rank":
                return [(_passage(document), None) for document in store.similarity_search(query, k=k)]
            case "relevance":
                found = store.similarity_search_with_relevance_scores(query, k=k)
            case _:
                found = store.similarity_search_with_score(query, k=k)
        sign = -1.0 if self._scores == "distance" else 1.0
        return [(_passage(document), sign * float(score)) for document, score in found]

    def _noted(self, document: Document) -> float | None:
        if self._score_key is None:
            return None
        score = document.metadata.get(self._score_key)
        return float(score) if score is not None else None

    def _remedy(self, error: Exception) -> str:
        if isinstance(error, NotImplementedError) and isinstance(self._source, VectorStore):
            return f"This store has no {self._scores} scores: try scores='similarity', 'distance' or 'rank'."
        return "Check the retriever."


def _passage(document: Document) -> Passage:
    return foreign_passage(
        document.page_content, document.metadata, identifier=document.id, title_keys=_TITLES, source_keys=_SOURCES
    )
