"""LlamaIndex, both ways; needs `pip install 'beliefrag[llamaindex]'`.

`FromLlamaIndex` lets a LlamaIndex retriever search for BeliefRAG. `BeliefRAGQueryEngine` is BeliefRAG as a query
engine, `BeliefRAGRetriever` our index as a LlamaIndex retriever.
"""

from beliefrag.errors import MissingExtra

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    raise MissingExtra("The LlamaIndex adapter", "llamaindex", error) from error

from beliefrag.adapters.endings import EpisodeFailed
from beliefrag.adapters.llamaindex.query_engine import BeliefRAGQueryEngine, BeliefRAGResponse
from beliefrag.adapters.llamaindex.retriever import BeliefRAGRetriever
from beliefrag.adapters.llamaindex.source import FromLlamaIndex
from beliefrag.adapters.scores import measured_scale

__all__ = [
    "BeliefRAGQueryEngine",
    "BeliefRAGResponse",
    "BeliefRAGRetriever",
    "EpisodeFailed",
    "FromLlamaIndex",
    "measured_scale",
]
