"""LlamaIndex, both ways; needs `pip install 'beliefrag[llamaindex]'`.

`FromLlamaIndex` lets a LlamaIndex retriever search for BeliefRAG. `BeliefRAGQueryEngine` is BeliefRAG as a query
engine, `BeliefRAGRetriever` our index as a LlamaIndex retriever.
"""

from beliefrag.errors import MissingExtra

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    raise MissingExtra("The LlamaIndex adapter", "llamaindex", error) from error

from beliefrag.integrations.llamaindex.query_engine import BeliefRAGQueryEngine, BeliefRAGResponse
from beliefrag.integrations.llamaindex.retriever import BeliefRAGRetriever
from beliefrag.integrations.llamaindex.source import FromLlamaIndex
from beliefrag.integrations.outcomes import EpisodeFailed
from beliefrag.integrations.scores import measured_scale

__all__ = [
    "BeliefRAGQueryEngine",
    "BeliefRAGResponse",
    "BeliefRAGRetriever",
    "EpisodeFailed",
    "FromLlamaIndex",
    "measured_scale",
]
