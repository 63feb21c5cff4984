"""BeliefRAG as a LlamaIndex query engine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks.base import CallbackManager, EventContext
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import QueryBundle

from beliefrag.engine.client import BeliefRAG
from beliefrag.integrations.llamaindex.nodes import node_of
from beliefrag.integrations.outcomes import best_scores, checked, step_of
from beliefrag.result import Result

__all__ = ["BeliefRAGQueryEngine", "BeliefRAGResponse"]


@dataclass
class BeliefRAGResponse(Response):
    """A response that says so when it is none: `response` is None exactly when BeliefRAG declined."""

    def __str__(self) -> str:
        # What an agent reads. The word "None", LlamaIndex's own, could be taken for the answer.
        if self.response is not None:
            return self.response
        return f"(No answer: the documents do not hold enough. {(self.metadata or {}).get('reason', '')})"


class BeliefRAGQueryEngine(BaseQueryEngine):
    """BeliefRAG wherever LlamaIndex takes a query engine: in a tool of an agent, in a router, by itself.

    The response holds the sources as nodes; its metadata has outcome, answerability, reason, usage and steps.
    Declining is an outcome, with `response` None. A failure is raised as `EpisodeFailed`, never answered. Cancelling
    `aquery` stops paying for model calls.

    Args:
        rag: What answers. It stays open: close it yourself.
        callback_manager: LlamaIndex's callbacks.
    """

    def __init__(self, rag: BeliefRAG, *, callback_manager: CallbackManager | None = None) -> None:
        self._rag = rag
        super().__init__(callback_manager)

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def _query(self, query_bundle: QueryBundle) -> BeliefRAGResponse:
        with self._told(query_bundle) as event:
            response = _response(self._rag.ask(query_bundle.query_str))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    async def _aquery(self, query_bundle: QueryBundle) -> BeliefRAGResponse:
        with self._told(query_bundle) as event:
            response = _response(await self._rag.aask(query_bundle.query_str))
            event.on_end(payload={EventPayload.RESPONSE: response})
        return response

    def _told(self, query_bundle: QueryBundle) -> AbstractContextManager[EventContext]:
        return self.callback_manager.event(CBEventType.QUERY, payload={EventPayload.QUERY_STR: query_bundle.query_str})


def _response(result: Result) -> BeliefRAGResponse:
    scores = best_scores(checked(result))
    return BeliefRAGResponse(
        response=result.answer,
        source_nodes=[node_of(passage, scores.get(passage.id)) for passage in result.sources],
        metadata={
            "outcome": result.outcome.name,
            "answerability": result.answerability,
            "reason": result.reason,
            "usage": result.record()["usage"],
            "steps": [step for event in result.events if (step := step_of(event))],
        },
    )
