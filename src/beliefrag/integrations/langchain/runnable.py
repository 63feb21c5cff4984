"""BeliefRAG as a step of a LangChain chain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, closing
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig

from beliefrag.engine.client import BeliefRAG
from beliefrag.errors import SettingsError
from beliefrag.events import Event
from beliefrag.integrations.langchain.answer import Answer, answer_of, last_piece, piece_of

__all__ = ["BeliefRAGRunnable"]

# LangChain calls the argument `input`, and callers give it by that name.
# ruff: noqa: A002

_Input = str | Mapping[str, Any]


class BeliefRAGRunnable(Runnable[_Input, Answer]):
    """BeliefRAG in a chain: a question in, the answer with its probability, reason and sources out.

    Declining to answer is an outcome, with `answer` None. A failure is raised as `EpisodeFailed`, never answered.
    Streaming gives a piece for each step while it thinks, and the rest when it is done; the pieces add up to what
    `invoke` returns. Whoever stops reading, or cancels, stops paying for model calls.

    Args:
        rag: What answers. It stays open: close it yourself.
        question_key: Where the question stands when the input is a mapping.
        name: How callbacks and traces call it.
    """

    def __init__(self, rag: BeliefRAG, *, question_key: str = "question", name: str = "BeliefRAG") -> None:
        self._rag = rag
        self._question_key = question_key
        self.name = name

    def invoke(self, input: _Input, config: RunnableConfig | None = None, **kwargs: Any) -> Answer:
        """Answers one question.

        Raises:
            EpisodeFailed: Something broke.
            SettingsError: There is no question in the input.
        """
        return self._call_with_config(self._ask, input, config, run_type="chain")

    async def ainvoke(self, input: _Input, config: RunnableConfig | None = None, **kwargs: Any) -> Answer:
        """Like `invoke`; cancelling it cancels the episode."""
        return await self._acall_with_config(self._aask, input, config, run_type="chain")

    def stream(self, input: _Input, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Answer]:
        """Gives the steps as they are taken, then the rest of the answer; raises as `invoke` does."""
        yield from self._transform_stream_with_config(iter([input]), self._pieces, config, run_type="chain")

    async def astream(
        self, input: _Input, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Answer]:
        """Like `stream`; closing it cancels the episode."""

        async def alone() -> AsyncIterator[_Input]:
            yield input

        pieces = self._atransform_stream_with_config(alone(), self._apieces, config, run_type="chain")
        async with aclosing(cast("AsyncGenerator[Answer, None]", pieces)) as stream:
            async for piece in stream:
                yield piece

    def _ask(self, given: _Input) -> Answer:
        return answer_of(self._rag.ask(self._question(given)))

    async def _aask(self, given: _Input) -> Answer:
        return answer_of(await self._rag.aask(self._question(given)))

    def _pieces(self, given: Iterator[_Input]) -> Iterator[Answer]:
        seen: list[Event] = []
        with closing(self._rag.events(self._question(next(given)))) as stream:
            for event in stream:
                seen.append(event)
                if piece := piece_of(event):
                    yield piece
        yield last_piece(seen)

    async def _apieces(self, given: AsyncIterator[_Input]) -> AsyncIterator[Answer]:
        seen: list[Event] = []
        async with aclosing(self._rag.stream(self._question(await anext(given)))) as stream:
            async for event in stream:
                seen.append(event)
                if piece := piece_of(event):
                    yield piece
        yield last_piece(seen)

    def _question(self, given: _Input) -> str:
        question = given.get(self._question_key) if isinstance(given, Mapping) else given
        if isinstance(question, str):
            return question
        raise SettingsError(
            f"The input is a {type(given).__name__} without a question in it.",
            remedy=f"Give a text, or a mapping with the key {self._question_key!r}.",
        )
