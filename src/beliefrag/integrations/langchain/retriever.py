"""Our index as a LangChain retriever."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, SkipValidation

from beliefrag.integrations.langchain.documents import document_of
from beliefrag.retrieval import Retriever

__all__ = ["BeliefRAGRetriever"]


class BeliefRAGRetriever(BaseRetriever):
    """An index of ours in a LangChain chain: one search, no model, no control.

    Args:
        retriever: A `Bm25Index`, a `BeliefRAG`, or anything with a `search` method.
        k: How many documents to return.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    retriever: SkipValidation[Retriever]
    k: int = Field(default=5, ge=1)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **_: Any
    ) -> list[Document]:
        return [document_of(hit.passage, hit.score) for hit in self.retriever.search(query, self.k)[: self.k]]
