"""Our index as a LlamaIndex retriever."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from beliefrag.errors import SettingsError
from beliefrag.integrations.llamaindex.nodes import node_of
from beliefrag.retrieval import Retriever

__all__ = ["BeliefRAGRetriever"]


class BeliefRAGRetriever(BaseRetriever):
    """An index of ours in a LlamaIndex pipeline: one search, no model, no control.

    Args:
        retriever: A `Bm25Index`, a `BeliefRAG`, or anything with a `search` method.
        k: How many nodes to return.
        options: What LlamaIndex's own retrievers take, such as a callback manager.
    """

    def __init__(self, retriever: Retriever, *, k: int = 5, **options: Any) -> None:
        if k < 1:
            raise SettingsError(f"A search cannot return {k} nodes.", remedy="Ask for 1 or more.")
        self._retriever = retriever
        self._k = k
        super().__init__(**options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._retriever.search(query_bundle.query_str, self._k)[: self._k]
        return [node_of(hit.passage, hit.score) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
