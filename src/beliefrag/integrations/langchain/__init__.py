"""LangChain, both ways; needs `pip install 'beliefrag[langchain]'`.

`FromLangChain` lets a LangChain retriever or vector store search for BeliefRAG. `BeliefRAGRunnable` is BeliefRAG as a
step of a chain, `BeliefRAGRetriever` our index as a LangChain retriever.
"""

from beliefrag.errors import MissingExtra

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise MissingExtra("The LangChain adapter", "langchain", error) from error

from beliefrag.integrations.langchain.answer import Answer
from beliefrag.integrations.langchain.retriever import BeliefRAGRetriever
from beliefrag.integrations.langchain.runnable import BeliefRAGRunnable
from beliefrag.integrations.langchain.source import FromLangChain
from beliefrag.integrations.outcomes import EpisodeFailed
from beliefrag.integrations.scores import measured_scale

__all__ = ["Answer", "BeliefRAGRetriever", "BeliefRAGRunnable", "EpisodeFailed", "FromLangChain", "measured_scale"]
