"""LlamaIndex, both ways; needs `pip install 'beliefrag[llamaindex]'`.

`FromLlamaIndex` lets a LlamaIndex retriever search for BeliefRAG. `BeliefRAGQueryEngine` is BeliefRAG as a query
engine.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from beliefrag.client import BeliefRAG, Conversation
from beliefrag.errors import MissingExtra, SettingsError
from beliefrag.integrations.foreign import (
    EpisodeFailed,
    ForeignRetriever,
    describe_answer,
    foreign_passage,
    passage_metadata,
    scored_sources,
)
from beliefrag.record import Episode
from beliefrag.types import Passage

try:
    from llama_index.core.base.base_query_engine import BaseQueryEngine
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.response.schema import Response
    from llama_index.core.callbacks.base import CallbackManager, EventContext
    from llama_index.core.callbacks.schema import CBEventType, EventPayload
    from llama_index.core.prompts.mixin import PromptMixinType
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise MissingExtra("The LlamaIndex integration", "llamaindex", error) from error

__all__ = [
    "BeliefRAGQueryEngine",
    "BeliefRAGResponse",
    "EpisodeFailed",
    "FromLlamaIndex",
]

_TITLE_KEYS = ("title", "document_title", "file_name")


class FromLlamaIndex(ForeignRetriever):
    """Any LlamaIndex retriever, as a retriever of ours: `BeliefRAG(retriever=FromLlamaIndex(index.as_retriever()))`.

    A passage's id is the node's. The retriever decides itself how many nodes it returns: give it a `similarity_top_k`
    of at least the budget's `top_k`.

    Args:
        retriever: The retriever.
        identity: Names the ranking (engine, embedding, settings). With it, a calibration that was fitted with another
            ranking is refused; without it, such a calibration is used with a warning.

    Raises:
        SettingsError: It is not a LlamaIndex retriever.
    """

    library = "LlamaIndex"

    def __init__(self, retriever: BaseRetriever, *, identity: str | None = None) -> None:
        if not isinstance(retriever, BaseRetriever):
            raise SettingsError(
                f"A {type(retriever).__name__} is not a LlamaIndex retriever.",
                remedy="Give what as_retriever() returns.",
            )
        super().__init__(retriever, identity)
        self._retriever = retriever

    def _find(self, query: str, k: int) -> list[Passage]:
        return [_to_passage(node) for node in self._retriever.retrieve(query)]


@dataclass
class BeliefRAGResponse(Response):
    """A response that says if it has no answer: `response` is None exactly when BeliefRAG declined."""

    def __str__(self) -> str:
        # An agent reads this. LlamaIndex's own word "None" could be taken for the answer.
        if self.response is not None:
            return self.response
        told = self.metadata or {}
        return told.get("asks") or f"(No answer: the documents do not hold enough. {told.get('reason', '')})"


class BeliefRAGQueryEngine(BaseQueryEngine):
    """BeliefRAG wherever LlamaIndex takes a query engine: in a tool of an agent, in a router, by itself.

    The response holds the passages that were read as nodes; its metadata has outcome, answerability, calibrated,
    reason, citations, usage and steps. Declining is an outcome, with `response` None. A failure is raised as
    `EpisodeFailed`. Cancelling `aquery` stops paying for model calls.

    Args:
        rag: What answers. It stays open: close it yourself. With `rag.conversation()` each question may refer to those
            before it.
        callback_manager: LlamaIndex's callbacks.
    """

    def __init__(self, rag: BeliefRAG | Conversation, *, callback_manager: CallbackManager | None = None) -> None:
        self._rag = rag
        super().__init__(callback_manager)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def _query(self, query_bundle: QueryBundle) -> BeliefRAGResponse:
        with self._event(query_bundle) as event:
            return _respond(event, self._rag.ask(query_bundle.query_str))

    async def _aquery(self, query_bundle: QueryBundle) -> BeliefRAGResponse:
        with self._event(query_bundle) as event:
            return _respond(event, await self._rag.aask(query_bundle.query_str))

    def _event(self, query_bundle: QueryBundle) -> AbstractContextManager[EventContext]:
        return self.callback_manager.event(CBEventType.QUERY, payload={EventPayload.QUERY_STR: query_bundle.query_str})


def _respond(event: EventContext, episode: Episode) -> BeliefRAGResponse:
    metadata = describe_answer(episode)
    nodes = [_to_node(passage, score) for passage, score in scored_sources(episode)]
    response = BeliefRAGResponse(response=episode.answer, source_nodes=nodes, metadata=metadata)
    event.on_end(payload={EventPayload.RESPONSE: response})
    return response


def _to_node(passage: Passage, score: float | None = None) -> NodeWithScore:
    node = TextNode(id_=passage.id, text=passage.text, metadata=passage_metadata(passage))
    return NodeWithScore(node=node, score=score)


def _to_passage(found: NodeWithScore) -> Passage:
    # Metadata is not part of the text: a model should not read a file name or an excluded field.
    text = found.node.get_content(MetadataMode.NONE)
    return foreign_passage(text, found.node.metadata, found.node.node_id, _TITLE_KEYS)
