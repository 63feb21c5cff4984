"""Runs episodes for clients: within the limits, one place each, and no new ones during shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from starlette.types import Receive

from beliefrag.answering.conversation import make_turn
from beliefrag.engine import loop
from beliefrag.feedback import FEEDBACK
from beliefrag.opening import Assembly, change_policy, reopen_passages
from beliefrag.record import Episode, Progress
from beliefrag.retrieval import EmptyCorpus
from beliefrag.retrieval.watching import watch_paths
from beliefrag.settings import Settings
from beliefrag.types import Budget, Question, Turn
from beliefrag.web.auth import CLIENT, GROUPS
from beliefrag.web.limits import ServerLimits
from beliefrag.web.problems import HttpProblem
from beliefrag.web.request_log import ClientDisconnected

_log = logging.getLogger(__name__)
NO_GROUPS: frozenset[str] = frozenset()
_RETRY_MODEL_AFTER = 30.0
"""Seconds after which a model whose last call failed counts as usable again."""
_FOLDERS = re.compile(r"""(?<=['"])(?:[A-Za-z]:)?[/\\][^'"]*[/\\](?=[^'"/\\]*['"])|(?<![\w.:/])/(?:[^\s'",;]+/)+""")
"""The folders of absolute paths, as the system's errors name them: in quotes, or alone. Web addresses stay."""
_RETRY_BUSY = 5
"""Seconds after which a client that was refused may ask again."""
_MOST_KEPT = 200
"""Answers whose passages a follow-up may read again."""
_MODEL_ERRORS = frozenset({"TransportError", "ModelError", "SettingsError"})


@dataclass(frozen=True, slots=True)
class Waiting:
    """The place of a request in the queue."""

    place: int
    """1 for the next one to begin; 0 if the question begins at once."""

    def __str__(self) -> str:
        return f"waiting, place {self.place}"


class AdmissionQueue:
    """A fixed number of places with a first-in, first-out queue in front of them."""

    def __init__(self, places: int, queue: int) -> None:
        self._places = places
        self._queue = queue
        self.in_flight = 0
        """How many places are taken."""
        # One event for each waiting request, set whenever it moves up.
        self._line: list[asyncio.Event] = []

    @property
    def waiting(self) -> int:
        """How many requests are in the queue."""
        return len(self._line)

    @contextlib.asynccontextmanager
    async def place(self, on_wait: Callable[[Waiting], None] = lambda _: None) -> AsyncIterator[None]:
        """Hold a place while the context is entered; report the wait at once and at each change.

        Without a free place or room in the queue, raise the problem `busy`.
        """
        if self._line or self.in_flight >= self._places:
            if len(self._line) >= self._queue:
                words = f"{self.in_flight} requests are being answered and {self.waiting} are waiting."
                raise _ask_again_later(429, "busy", words)
            await self._wait_for_turn(on_wait)
        else:
            on_wait(Waiting(0))
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._move_up()

    async def _wait_for_turn(self, on_wait: Callable[[Waiting], None]) -> None:
        moved = asyncio.Event()
        self._line.append(moved)
        try:
            while self._line[0] is not moved or self.in_flight >= self._places:
                on_wait(Waiting(self._line.index(moved) + 1))
                moved.clear()
                await moved.wait()
        finally:
            self._line.remove(moved)
            self._move_up()

    def _move_up(self) -> None:
        for moved in self._line:
            moved.set()


class EpisodeObserver(Protocol):
    """Gets what an episode yields, and how it ended or was interrupted, both with the seconds since it began."""

    def on_progress(self, progress: Progress, seconds: float) -> None: ...  # noqa: D102

    def on_end(self, ending: str, seconds: float) -> None: ...  # noqa: D102


class AnswerService:
    """One assembly with its settings, whose budget is lowered to the limits, and the clients that want answers."""

    def __init__(
        self,
        assembly: Assembly | Mapping[frozenset[str], Assembly],
        settings: Settings,
        limits: ServerLimits,
    ) -> None:
        lowered = {name: min(getattr(settings.budget, name), getattr(limits.budget, name)) for name in Budget.__slots__}
        self.limits = limits
        self.feedback = FEEDBACK
        """Where the page keeps what people say about answers."""
        style = settings.answer_style or "sentence"
        changed = {"budget": replace(settings.budget, **lowered), "answer_style": style}
        self.settings = settings.model_copy(update=changed)
        self._kept: dict[str, Turn] = {}
        """The latest answers with the passages that they rest on, by their key."""
        self.replace_passages(assembly)
        self.admission = AdmissionQueue(limits.concurrency, limits.queue)
        self.draining = False
        self._closing = threading.Event()
        self._running: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._model_failed_at = float("-inf")

    def recall_turn(self, key: str, question: str, answer: str) -> Turn:
        """Return a turn as a client has it, with what was read for it if it is among the latest answers.

        `answer_key` gives the key. The loop reads those passages again only where the same ones are searched.
        """
        kept = self._kept.get(key, Turn(""))
        return replace(kept, question=question, answer=answer)

    def replace_passages(self, assembly: Assembly | Mapping[frozenset[str], Assembly]) -> None:
        """Use another version of the passages for the next questions; running episodes keep the one they have."""
        self._kept.clear()
        held = assembly if isinstance(assembly, Mapping) else {NO_GROUPS: assembly}
        self._by_groups = {groups: change_policy(each, self.settings) for groups, each in held.items()}
        self._has_rights = isinstance(assembly, Mapping)
        self._without_documents = ""
        self.updated_at = datetime.now(UTC)
        """When the passages were opened."""

    def follow(self, docs: Sequence[Path] | None, index: Path | None) -> None:
        """Take in changes of the documents or the index from now on, in a thread; the old passages answer meanwhile."""
        paths = [*(docs or ()), *([index] if index else ())]

        def apply_changes() -> None:
            for _ in watch_paths(paths, self._closing, index=index is not None):
                try:
                    self.replace_passages(reopen_passages(self.assembly, docs=docs, index=index))
                except Exception as error:
                    # The old passages stay in use, and the next change is a new chance.
                    _log.warning("documents cannot be updated", extra={"fields": {"error": str(error)}})
                    if docs and (isinstance(error, EmptyCorpus) or not all(path.exists() for path in docs)):
                        self._without_documents = "The documents are gone, or none of them can be read."

        if paths:
            threading.Thread(target=apply_changes, name="documents", daemon=True).start()

    @property
    def assembly(self) -> Assembly:
        """The assembly of a client without rights: where clients have rights, it has no passages."""
        return self._by_groups[NO_GROUPS]

    def assembly_for(self, scope: Mapping[str, Any]) -> Assembly:
        """Return the assembly with what the client of a request may read."""
        return self._by_groups[scope.get(GROUPS, NO_GROUPS)] if self._has_rights else self.assembly

    def model_is_ready(self) -> bool:
        """Return whether the last calls to the model went well. The model is not asked: that would cost tokens."""
        return time.monotonic() - self._model_failed_at > _RETRY_MODEL_AFTER

    async def index_is_ready(self) -> bool:
        """Return whether a search works."""
        if self._without_documents:
            return False
        try:
            await asyncio.to_thread(self.assembly.harness.retriever.search, "ready", 1)
        except Exception:
            return False
        return True

    def remove_private_parts(self, text: str) -> str:
        """Remove folders and the address of the model's server from a text that clients get."""
        server = self.assembly.model.identity.partition("@")[2].partition("#")[0]
        return _FOLDERS.sub("", text.replace(server, "the model server") if server else text)

    async def run_episode(
        self,
        question: str,
        assembly: Assembly,
        observers: Sequence[EpisodeObserver],
        on_event: Callable[[Progress | Waiting], None],
        *,
        history: Sequence[Turn] = (),
        key: str = "",
    ) -> None:
        """Wait for a place and run one episode to its end, or until it is cancelled.

        The first thing that `on_event` gets is the place in the queue. The time limit begins with the episode.
        """
        if self.draining or self._without_documents:
            gone = _ask_again_later(503, "no_documents", self._without_documents)
            raise _shutting_down() if self.draining else gone
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        began = time.monotonic()
        ending = "broken"
        try:
            async with self.admission.place(on_event), asyncio.timeout(self.limits.timeout):
                began = time.monotonic()
                stream = loop.run(Question(question), assembly.method, assembly.harness, history)
                async with contextlib.aclosing(stream):
                    async for event in stream:
                        for observer in observers:
                            observer.on_progress(event, time.monotonic() - began)
                        if isinstance(event, Episode) and event.outcome is not None:
                            last = event
                        else:
                            on_event(event)
            self._judge_model(last)
            self._keep(key, last)
            ending = str(last.outcome)
        except HttpProblem:
            ending = ""  # refused: no episode began
            raise
        except TimeoutError:
            ending = "timed_out"
            words = f"The answer took more than {self.limits.timeout:g} seconds."
            raise HttpProblem(504, "timeout", words, remedy="Ask again later.") from None
        except asyncio.CancelledError:
            ending = "shut_down" if self._stopping else "cancelled"
            if self._stopping:
                raise _shutting_down() from None
            raise
        finally:
            self._running.discard(task)
            if ending:
                for observer in observers:
                    observer.on_end(ending, time.monotonic() - began)
        # Sent last: a client that has the answer may rely on the place being free and the log being written.
        on_event(last)

    async def drain(self) -> None:
        """Take no more questions, let running episodes finish within the grace period, then cancel them."""
        self.draining = True
        if self._running:
            await asyncio.wait(self._running, timeout=self.limits.grace)
        self._stopping = True
        for task in self._running:
            task.cancel()

    async def aclose(self) -> None:
        """Close the model, and the retriever that was opened for it."""
        self._closing.set()
        await self.assembly.aclose()

    def _keep(self, key: str, episode: Episode) -> None:
        # A client may choose the id of its request; it must not take another answer's place.
        if key and episode.finished:
            self._kept.setdefault(key, make_turn(episode))
            while len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]

    def _judge_model(self, episode: Episode) -> None:
        if episode.cause in _MODEL_ERRORS:
            self._model_failed_at = time.monotonic()
        elif episode.usage.calls > episode.usage.cached_calls:
            self._model_failed_at = float("-inf")


class EpisodeTask:
    """An episode that runs beside the handler of its request, until it is cancelled.

    The next message of `receive`, the channel of a request whose body was read, is that the client has left.
    """

    def __init__(
        self,
        service: AnswerService,
        question: str,
        assembly: Assembly,
        observers: Sequence[EpisodeObserver],
        receive: Receive,
        *,
        history: Sequence[Turn] = (),
        key: str = "",
    ) -> None:
        self._news: asyncio.Queue[Progress | Waiting | None] = asyncio.Queue()
        run = service.run_episode(question, assembly, observers, self._news.put_nowait, history=history, key=key)
        self._run = asyncio.create_task(run)
        self._disconnect = asyncio.create_task(_wait_for_disconnect(receive))
        for task in (self._run, self._disconnect):
            task.add_done_callback(lambda _: self._news.put_nowait(None))

    async def cancel(self) -> None:
        """Cancel the episode and wait for its end."""
        for task in (self._run, self._disconnect):
            task.cancel()
        await asyncio.gather(self._run, self._disconnect, return_exceptions=True)

    async def next_event(self, timeout: float | None = None) -> Progress | Waiting | None:  # noqa: ASYNC109 - no deadline
        """Return the next event or place in the queue, or None after the timeout; raise why it cannot go on."""
        try:
            async with asyncio.timeout(timeout):
                event = await self._news.get()
        except TimeoutError:
            return None
        if event is None:
            if self._run.done():
                self._run.result()
            raise ClientDisconnected
        return event

    async def wait(self, on_event: Callable[[Progress | Waiting], Awaitable[None]] | None = None) -> Episode:
        """Wait for the end of the episode."""
        while True:
            event = await self.next_event()
            if isinstance(event, Episode) and event.outcome is not None:
                return event
            if on_event is not None and event is not None:
                await on_event(event)


def answer_key(scope: Mapping[str, Any], request_id: str) -> str:
    """Return the key of an answer: a client names its answers by the ids of their requests, and no other client's."""
    return f"{scope.get(CLIENT, '')} {request_id}" if request_id else ""


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _shutting_down() -> HttpProblem:
    return _ask_again_later(503, "shutting_down", "The server is shutting down.")


def _ask_again_later(status: int, code: str, words: str) -> HttpProblem:
    headers = {"Retry-After": str(_RETRY_BUSY)}
    return HttpProblem(status, code, words, remedy=f"Ask again in {_RETRY_BUSY} s.", headers=headers)
