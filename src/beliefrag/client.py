"""`BeliefRAG`, the class with which Python programs ask questions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.opening import Assembly
    from beliefrag.policy import ScoreScale
    from beliefrag.record import Episode, Progress
    from beliefrag.retrieval import Retriever, Skipped
    from beliefrag.settings import Settings
    from beliefrag.types import Hit, Passage, Question, Turn

# What an object needs is imported when the first one is made: a program that only imports the class starts at once.
# ruff: noqa: PLC0415

_T = TypeVar("_T")
_P = TypeVar("_P", bound="Progress")


class BeliefRAG:
    """Answers questions over documents, says how sure it is and why it stopped, and declines when it should.

    Give it exactly one of `docs` (files or folders), `passages`, `index` (a folder made by `beliefrag index`) or
    `retriever` (an object with a `search` method; a text chooses a registered retriever for the documents). `where`
    limits all searches by metadata, such as `type=pdf and year>=2024`. Any
    setting can be given by name, such as `method="iterative:rounds=2"`; the others come from the settings files, the
    environment and the defaults. Where `base_url` names a server and no model is named, the one model of the server
    is asked; a server with several is a `SettingsError` that lists them.

    Episodes run on an event loop of the object's own, so `ask` works in scripts and notebooks alike, and `aask` from
    any event loop.

    Example:
        >>> from beliefrag import BeliefRAG
        >>> with BeliefRAG(docs="handbook/", model="local:qwen2.5-coder-1.5b") as rag:  # doctest: +SKIP
        ...     episode = rag.ask("Who approves travel?")
        ...     print(episode.answer, episode.answerability)
    """

    def __init__(
        self,
        docs: str | Path | Iterable[str | Path] | None = None,
        *,
        passages: Iterable[Passage] | None = None,
        index: str | Path | None = None,
        retriever: Retriever | str | None = None,
        settings: Settings | None = None,
        where: str | None = None,
        **given: Any,
    ) -> None:
        from beliefrag.models.providers import use_server_model
        from beliefrag.opening import assemble
        from beliefrag.settings import load_settings
        from beliefrag.types import Passage

        if passages is not None:
            passages = tuple(passages)
            if wrong := next((each for each in passages if not isinstance(each, Passage)), None):
                raise SettingsError(
                    f"passages holds a {type(wrong).__name__}, not a Passage.",
                    remedy="Make each with beliefrag.Passage(id, title, text).",
                )
        if isinstance(retriever, str):
            given, retriever = {**given, "retriever": retriever}, None
        if settings is not None and given:
            raise SettingsError("Give either settings or single settings by name, not both.")
        self._settings = use_server_model(settings or load_settings(given).settings)
        self._assembly: Assembly = assemble(
            self._settings, docs=docs, passages=passages, index=index, retriever=retriever, where=where
        )
        self._worker = _Worker()
        self._closed = False

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._settings

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Documents that could not be read, with the reason of each: what no answer rests on."""
        return self._assembly.report.skipped if self._assembly.report else ()

    def conversation(self) -> Conversation:
        """Return a conversation: follow-up questions may refer to what was asked and answered before."""
        return Conversation(self)

    def ask(self, question: str, *, history: Sequence[Turn] = (), where: str | None = None) -> Episode:
        """Answer a question. A failure is an outcome too: look at `outcome` before using `answer`.

        Args:
            question: What is asked; it may refer to the history.
            history: The turns before it, the latest last; `conversation` keeps them by itself.
            where: Limits its searches by metadata, beside what limits all of them.
        """
        episode = self._worker.submit(self._episode(question, history, where))
        try:
            return episode.result()
        finally:
            # After an interrupt no caller waits for the answer, so none should pay for it.
            episode.cancel()

    async def aask(self, question: str, *, history: Sequence[Turn] = (), where: str | None = None) -> Episode:
        """Like `ask`, without blocking the caller's event loop. Cancelling it stops paying for model calls."""
        return await asyncio.wrap_future(self._worker.submit(self._episode(question, history, where)))

    async def stream(
        self, question: str, *, history: Sequence[Turn] = (), where: str | None = None
    ) -> AsyncGenerator[Progress, None]:
        """Yield the episode as it begins, calls that start, steps that end, the answer as it is written, the whole."""
        here = asyncio.get_running_loop()
        queue: asyncio.Queue[Progress | None] = asyncio.Queue()
        put = queue.put_nowait
        producer = self._start(question, history, where, lambda progress: here.call_soon_threadsafe(put, progress))
        try:
            while (progress := await queue.get()) is not None:
                yield progress
            await asyncio.wrap_future(producer)
        finally:
            producer.cancel()

    def events(
        self, question: str, *, history: Sequence[Turn] = (), where: str | None = None
    ) -> Generator[Progress, None, None]:
        """Like `stream`, for callers without an event loop. Closing the generator stops paying for model calls."""
        queue: SimpleQueue[Progress | None] = SimpleQueue()
        producer = self._start(question, history, where, queue.put)
        try:
            while (progress := queue.get()) is not None:
                yield progress
            producer.result()
        finally:
            producer.cancel()

    def search(self, query: str, k: int = 5, *, where: str | None = None) -> list[Hit]:
        """Return the passages that one search finds, best first. No model is asked.

        `where` limits it by metadata, such as `type=pdf and year>=2024`.
        With `identity` and `score_scale` it makes this object a retriever itself.

        Raises:
            RetrievalError: The search failed.
        """
        return list(self._assembly.limit(where).harness.retriever.search(query, k))[:k]

    @property
    def identity(self) -> str | None:
        """What ranks the passages that `search` finds."""
        return self._assembly.harness.retriever.identity

    @property
    def score_scale(self) -> ScoreScale | None:
        """How the scores of `search` are to be read."""
        return self._assembly.harness.retriever.score_scale

    def close(self) -> None:
        """Close the model and end the worker thread. Calling it twice is harmless."""
        if not self._closed:
            self._closed = True
            self._worker.submit(self._assembly.aclose()).result()
            self._worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _check(self, question: str) -> Question:
        from beliefrag.types import Question

        if self._closed:
            raise SettingsError("This BeliefRAG was closed.", remedy="Make a new one.")
        if not question.strip():
            raise SettingsError("The question is empty.", remedy="Ask something.")
        return Question(question)

    def _start(
        self, question: str, history: Sequence[Turn], where: str | None, put: Callable[[Progress | None], object]
    ) -> Future[None]:
        """Start an episode on the worker; `put` gets what the loop yields, and None at the end."""
        from beliefrag.engine import loop

        async def produce() -> None:
            checked, assembly = self._check(question), await asyncio.to_thread(self._assembly.limit, where)
            async for progress in loop.run(checked, assembly.method, assembly.harness, history):
                put(progress)

        producer = self._worker.submit(produce())
        producer.add_done_callback(lambda _: put(None))
        return producer

    async def _episode(self, question: str, history: Sequence[Turn], where: str | None) -> Episode:
        from beliefrag.engine import loop

        checked, assembly = self._check(question), await asyncio.to_thread(self._assembly.limit, where)
        return await loop.play(checked, assembly.method, assembly.harness, history)


class Conversation:
    """Questions to one `BeliefRAG`, of which each may refer to those before it.

    The latest turns are kept, with the passages that were read for them. `clear` forgets them. Made by
    `BeliefRAG.conversation`.

    Example:
        >>> talk = rag.conversation()  # doctest: +SKIP
        >>> talk.ask("Who approves travel?"), talk.ask("And above the limit?")  # doctest: +SKIP
    """

    def __init__(self, rag: BeliefRAG) -> None:
        self._rag = rag
        self.turns: tuple[Turn, ...] = ()

    def ask(self, question: str, *, where: str | None = None) -> Episode:
        """Answer a question as `BeliefRAG.ask` does, and keep it as a turn unless it failed."""
        return self._keep(self._rag.ask(question, history=self.turns, where=where))

    async def aask(self, question: str, *, where: str | None = None) -> Episode:
        """Like `ask`, without blocking the caller's event loop."""
        return self._keep(await self._rag.aask(question, history=self.turns, where=where))

    async def stream(self, question: str, *, where: str | None = None) -> AsyncGenerator[Progress, None]:
        """Yield what `BeliefRAG.stream` does, and keep the turn."""
        async with contextlib.aclosing(self._rag.stream(question, history=self.turns, where=where)) as stream:
            async for progress in stream:
                yield self._keep(progress)

    def events(self, question: str, *, where: str | None = None) -> Generator[Progress, None, None]:
        """Yield what `BeliefRAG.events` does, and keep the turn."""
        with contextlib.closing(self._rag.events(question, history=self.turns, where=where)) as events:
            for progress in events:
                yield self._keep(progress)

    def clear(self) -> None:
        """Forget what was asked and answered."""
        self.turns = ()

    def _keep(self, progress: _P) -> _P:
        from beliefrag.answering.conversation import add_turn

        self.turns = add_turn(self.turns, progress)
        return progress


class _Worker:
    """A thread with an event loop: clients and locks of a model belong to one loop for as long as they live."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="beliefrag", daemon=True)
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        with self._starting:
            if self._loop is None or self._thread is None:
                return
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None
