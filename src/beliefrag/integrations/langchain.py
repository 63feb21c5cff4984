"""LangChain, both ways; needs `pip install 'beliefrag[langchain]'`.

`FromLangChain` lets a LangChain retriever or vector store search for BeliefRAG. `BeliefRAGRunnable` is BeliefRAG as a
step of a chain, `LangChainRetriever` our index as a LangChain retriever.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, closing
from typing import Any, Literal, TypedDict, cast

from pydantic import ConfigDict, Field, SkipValidation

from beliefrag.client import BeliefRAG
from beliefrag.errors import MissingExtra, SettingsError
from beliefrag.integrations.foreign import (
    EpisodeFailed,
    ForeignRetriever,
    ScoredPassage,
    describe_answer,
    describe_step,
    foreign_passage,
    measured_scale,
    passage_metadata,
    scored_sources,
)
from beliefrag.policy import ScoreScale
from beliefrag.record import Episode, Progress, Step
from beliefrag.retrieval import IGNORE_SCORES, Retriever
from beliefrag.types import Passage

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.runnables.utils import AddableDict
    from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
except ImportError as error:
    raise MissingExtra("The LangChain integration", "langchain", error) from error

__all__ = [
    "BeliefRAGRunnable",
    "EpisodeFailed",
    "FromLangChain",
    "LangChainAnswer",
    "LangChainRetriever",
    "StoreScores",
    "measured_scale",
]

# LangChain calls the argument `input`, and callers give it by that name.
# ruff: noqa: A002

StoreScores = Literal["relevance", "similarity", "distance", "rank"]
_Input = str | Mapping[str, Any]


class FromLangChain(ForeignRetriever):
    """Any LangChain retriever or vector store, as a retriever of ours: `BeliefRAG(retriever=FromLangChain(store))`.

    A passage's id is the document's, or else a hash of its title and text. A retriever decides itself how many
    documents it returns (a `VectorStoreRetriever` gets how many are wanted): let it return as many as the budget's
    `top_k`. Ranks are used instead of scores unless `score_key` names the metadata entry that holds a score. A vector
    store gives scores, but only its owner knows what they mean.

    Args:
        source: The retriever or vector store.
        scores: For a vector store: "relevance" (LangChain's scores from 0 to 1, where the store has them),
            "similarity" (the store's own, higher is better), "distance" (its own, lower is better; they are negated) or
            "rank" (none).
        score_key: For a retriever: the metadata entry that holds a score, such as a reranker's "relevance_score".
            Higher must be better.
        scale: Where the scores lie, for the relevance diagnostic; see `measured_scale`. With `IGNORE_SCORES` relevance
            is one half, whatever the scores.
        identity: Names the ranking (engine, embedding, settings). With it, a calibration that was fitted with another
            ranking is refused; without it, such a calibration is used with a warning.

    Raises:
        SettingsError: The options do not fit the source.
    """

    library = "LangChain"

    def __init__(
        self,
        source: BaseRetriever | VectorStore,
        *,
        scores: StoreScores | None = None,
        score_key: str | None = None,
        scale: ScoreScale | None = IGNORE_SCORES,
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
        super().__init__(source, scale, identity)
        self._source = source
        self._scores: StoreScores = scores or "relevance"
        self._score_key = score_key

    def _find(self, query: str, k: int) -> Iterable[ScoredPassage]:
        if isinstance(self._source, VectorStore):
            found: Iterable[tuple[Document, float | None]]
            match self._scores:
                case "rank":
                    found = [(document, None) for document in self._source.similarity_search(query, k=k)]
                case "relevance":
                    found = self._source.similarity_search_with_relevance_scores(query, k=k)
                case _:
                    found = self._source.similarity_search_with_score(query, k=k)
        else:
            # Other retrievers take no such argument: they know their number themselves.
            options = {"k": k} if isinstance(self._source, VectorStoreRetriever) else {}
            documents = self._source.invoke(query, None, **options)
            found = [(each, each.metadata.get(self._score_key) if self._score_key else None) for each in documents]
        sign = -1.0 if self._scores == "distance" else 1.0
        return [(_to_passage(each), None if score is None else sign * float(score)) for each, score in found]

    def _remedy(self, error: Exception) -> str:
        if isinstance(error, NotImplementedError) and isinstance(self._source, VectorStore):
            return f"This store has no {self._scores} scores: try scores='similarity', 'distance' or 'rank'."
        return super()._remedy(error)


class LangChainRetriever(BaseRetriever):
    """An index of ours in a LangChain chain: one search, without a model and without control.

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
        return [_to_document(hit.passage, hit.score) for hit in self.retriever.search(query, self.k)[: self.k]]


class LangChainAnswer(TypedDict):
    """What the runnable gives."""

    question: str
    outcome: str
    """answered, stopped (the best answer there is) or abstained."""
    answer: str | None
    """None exactly when it abstained."""
    answerability: float | None
    """The calibrated probability that the answer is right; None for methods without a calibration."""
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

    Declining to answer is an outcome, with `answer` None. A failure is raised as `EpisodeFailed`. Streaming gives a
    piece for each step as it is taken, and the rest at the end; the pieces add up to what `invoke` returns. A caller
    that stops reading, or cancels, stops paying for model calls.

    Args:
        rag: What answers. It stays open: close it yourself.
        question_key: The key of the question when the input is a mapping.
        name: Its name in callbacks and traces.
    """

    def __init__(self, rag: BeliefRAG, *, question_key: str = "question", name: str = "BeliefRAG") -> None:
        self._rag = rag
        self._question_key = question_key
        self.name = name

    def invoke(self, input: _Input, config: RunnableConfig | None = None, **kwargs: Any) -> LangChainAnswer:
        """Answer one question."""
        return self._call_with_config(self._ask, input, config, run_type="chain")

    async def ainvoke(self, input: _Input, config: RunnableConfig | None = None, **kwargs: Any) -> LangChainAnswer:
        """Like `invoke`; cancelling it cancels the episode."""
        return await self._acall_with_config(self._aask, input, config, run_type="chain")

    def stream(self, input: _Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[LangChainAnswer]:
        """Return the steps as they are taken, then the rest of the answer; raise as `invoke` does."""
        yield from self._transform_stream_with_config(iter([input]), self._pieces, config, run_type="chain")

    async def astream(
        self, input: _Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[LangChainAnswer]:
        """Like `stream`; closing it cancels the episode."""

        async def one_input() -> AsyncIterator[_Input]:
            yield input

        pieces = self._atransform_stream_with_config(one_input(), self._apieces, config, run_type="chain")
        async with aclosing(cast("AsyncGenerator[LangChainAnswer, None]", pieces)) as stream:
            async for piece in stream:
                yield piece

    def _ask(self, given: _Input) -> LangChainAnswer:
        return _to_answer(self._rag.ask(self._question(given)))

    async def _aask(self, given: _Input) -> LangChainAnswer:
        return _to_answer(await self._rag.aask(self._question(given)))

    def _pieces(self, given: Iterator[_Input]) -> Iterator[LangChainAnswer]:
        with closing(self._rag.events(self._question(next(given)))) as stream:
            for progress in stream:
                if piece := _piece_of(progress):
                    yield piece

    async def _apieces(self, given: AsyncIterator[_Input]) -> AsyncIterator[LangChainAnswer]:
        async with aclosing(self._rag.stream(self._question(await anext(given)))) as stream:
            async for progress in stream:
                if piece := _piece_of(progress):
                    yield piece

    def _question(self, given: _Input) -> str:
        question = given.get(self._question_key) if isinstance(given, Mapping) else given
        if isinstance(question, str):
            return question
        raise SettingsError(
            f"The input is a {type(given).__name__} without a question in it.",
            remedy=f"Give a text, or a mapping with the key {self._question_key!r}.",
        )


def _to_passage(document: Document) -> Passage:
    return foreign_passage(document.page_content, document.metadata, document.id, ("title", "Title"))


def _to_document(passage: Passage, score: float | None = None) -> Document:
    return Document(page_content=passage.text, id=passage.id, metadata=passage_metadata(passage, score))


def _to_answer(episode: Episode) -> LangChainAnswer:
    described = describe_answer(episode)
    sources = [_to_document(passage, score) for passage, score in scored_sources(episode)]
    own = {"question": episode.question.text, "answer": episode.answer, "sources": sources}
    return cast("LangChainAnswer", own | described)


def _piece_of(progress: Progress) -> LangChainAnswer | None:
    """Return what a part of an episode adds to the answer: a step, or at its end everything but the steps."""
    entries: dict[str, Any] = {}
    if isinstance(progress, Step):
        entries = {"steps": [describe_step(progress)]}
    elif isinstance(progress, Episode) and progress.outcome is not None:
        entries = {key: value for key, value in _to_answer(progress).items() if key != "steps"}
    # LangChain adds pieces with +, which plain dictionaries do not have.
    return cast("LangChainAnswer", AddableDict(entries)) if entries else None
