"""LangChain, both ways; needs `pip install 'beliefrag[langchain]'`.

`FromLangChain` lets a LangChain retriever or vector store search for BeliefRAG. `BeliefRAGRunnable` is BeliefRAG as a
step of a chain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypedDict, cast

from beliefrag.client import BeliefRAG
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
from beliefrag.types import Passage, Turn

try:
    from langchain_core.documents import Document
    from langchain_core.messages import BaseMessage
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
except ImportError as error:
    raise MissingExtra("The LangChain integration", "langchain", error) from error

__all__ = [
    "BeliefRAGRunnable",
    "EpisodeFailed",
    "FromLangChain",
    "LangChainAnswer",
]

# LangChain calls the argument `input`, and callers give it by that name.
# ruff: noqa: A002

_Input = str | Mapping[str, Any]


class FromLangChain(ForeignRetriever):
    """Any LangChain retriever or vector store, as a retriever of ours: `BeliefRAG(retriever=FromLangChain(store))`.

    A passage's id is the document's, or else a hash of its title and text. A vector store and its own retriever get the
    number of documents that are wanted. Any other retriever decides that itself: let it return as many as the budget's
    `top_k`.

    Args:
        source: The retriever or vector store.
        identity: Names the ranking (engine, embedding, settings). With it, a calibration that was fitted with another
            ranking is refused; without it, such a calibration is used with a warning.

    Raises:
        SettingsError: It is neither a retriever nor a vector store.
    """

    library = "LangChain"

    def __init__(self, source: BaseRetriever | VectorStore, *, identity: str | None = None) -> None:
        if not isinstance(source, BaseRetriever | VectorStore):
            raise SettingsError(
                f"A {type(source).__name__} is neither a LangChain retriever nor a vector store.",
                remedy="Give a BaseRetriever or a VectorStore.",
            )
        super().__init__(source, identity)
        self._source = source

    def _find(self, query: str, k: int) -> list[Passage]:
        if isinstance(self._source, VectorStore):
            found = self._source.similarity_search(query, k=k)
        else:
            # Other retrievers take no such argument: they know their number themselves.
            options = {"k": k} if isinstance(self._source, VectorStoreRetriever) else {}
            found = self._source.invoke(query, None, **options)
        return [_to_passage(each) for each in found]


class LangChainAnswer(TypedDict):
    """What the runnable gives."""

    question: str
    outcome: str
    """answered, stopped (the best answer there is) or abstained."""
    standalone: str
    """A follow-up as it was understood; empty if it was answered as it was asked."""
    asks: str | None
    """When the question cannot be understood by itself: what to ask the person."""
    answer: str | None
    """None exactly when it abstained."""
    sentences: list[dict[str, Any]]
    """The sentences of the answer, with the places of their citations from 0; empty for a short one."""
    left_out: int
    """Sentences that were removed, because the documents do not support them."""
    answerability: float | None
    """How likely the answer is right; None for methods that do not say."""
    calibrated: bool | None
    """False where that is an uncalibrated estimate, not fitted for this model and search."""
    reason: str
    best_guess: str | None
    """When it abstained: what the answer would have been, where that is known."""
    citations: list[dict[str, Any]]
    """The sentences that the answer rests on, in the order of the argument: quote, passage, file and place."""
    nearest: list[dict[str, Any]]
    """When it abstained: the sentences that came nearest to an answer."""
    sources: list[Document]
    """Every passage that was read for the answer."""
    usage: dict[str, Any]
    steps: list[dict[str, Any]]


class BeliefRAGRunnable(Runnable[_Input, LangChainAnswer]):
    """BeliefRAG in a chain: a question in, the answer with its probability, reason and citations out.

    A mapping can have a filter under the key `where`.

    Declining to answer is an outcome, with `answer` None. A failure is raised as `EpisodeFailed`. Cancelling `ainvoke`
    stops paying for model calls.

    Args:
        rag: What answers. It stays open: close it yourself.
        question_key: The key of the question when the input is a mapping.
        history_key: The key of the messages before it, which it may refer to; a mapping need not have it.
        name: Its name in callbacks and traces.
    """

    def __init__(
        self, rag: BeliefRAG, *, question_key: str = "question", history_key: str = "history", name: str = "BeliefRAG"
    ) -> None:
        self._rag = rag
        self._question_key = question_key
        self._history_key = history_key
        self.name = name

    def invoke(self, input: _Input, config: RunnableConfig | None = None, **kwargs: Any) -> LangChainAnswer:
        """Answer one question."""
        return self._call_with_config(self._ask, input, config, run_type="chain")

    async def ainvoke(self, input: _Input, config: RunnableConfig | None = None, **kwargs: Any) -> LangChainAnswer:
        """Like `invoke`; cancelling it cancels the episode."""
        return await self._acall_with_config(self._aask, input, config, run_type="chain")

    def _ask(self, given: _Input) -> LangChainAnswer:
        return _to_answer(self._rag.ask(self._question(given), **self._options(given)))

    async def _aask(self, given: _Input) -> LangChainAnswer:
        return _to_answer(await self._rag.aask(self._question(given), **self._options(given)))

    def _question(self, given: _Input) -> str:
        question = given.get(self._question_key) if isinstance(given, Mapping) else given
        if isinstance(question, str):
            return question
        raise SettingsError(
            f"The input is a {type(given).__name__} without a question in it.",
            remedy=f"Give a text, or a mapping with the key {self._question_key!r}.",
        )

    def _options(self, given: _Input) -> dict[str, Any]:
        return {"history": self._history(given), "where": given.get("where") if isinstance(given, Mapping) else None}

    def _history(self, given: _Input) -> list[Turn]:
        turns: list[Turn] = []
        for message in given.get(self._history_key, ()) if isinstance(given, Mapping) else ():
            if not isinstance(message, BaseMessage):
                raise SettingsError(
                    f"The history holds a {type(message).__name__}, not a message.",
                    remedy="Give LangChain's HumanMessage and AIMessage in turn.",
                )
            if message.type == "human":
                turns.append(Turn(str(message.text)))
            elif message.type == "ai" and turns:
                turns[-1] = replace(turns[-1], answer=str(message.text))
        return turns


def _to_passage(document: Document) -> Passage:
    return foreign_passage(document.page_content, document.metadata, document.id, ("title", "Title"))


def _to_document(passage: Passage, score: float | None = None) -> Document:
    return Document(page_content=passage.text, id=passage.id, metadata=passage_metadata(passage, score))


def _to_answer(episode: Episode) -> LangChainAnswer:
    described = describe_answer(episode)
    sources = [_to_document(passage, score) for passage, score in scored_sources(episode)]
    own = {"question": episode.question.text, "answer": episode.answer, "sources": sources}
    return cast("LangChainAnswer", own | described)
