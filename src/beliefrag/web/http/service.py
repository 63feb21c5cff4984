"""Plays episodes for clients: within the limits, one place each, and none after it was told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from beliefrag.engine import loop
from beliefrag.engine.assembly import Assembly, change_policy
from beliefrag.events import Event, Finished
from beliefrag.outcome import Failed
from beliefrag.settings import Settings
from beliefrag.types import Budget, Question
from beliefrag.web.http.admission import Gate, Overfull
from beliefrag.web.http.limits import Limits
from beliefrag.web.http.problems import Problem

__all__ = ["Service", "Watcher"]

_REST = 30.0
"""Seconds after which a model whose last call failed is worth another try."""
_FOLDERS = re.compile(r"""(?<=['"])(?:[A-Za-z]:)?[/\\][^'"]*[/\\](?=[^'"/\\]*['"])|(?<![\w.:/])/(?:[^\s'",;]+/)+""")
"""The folders of absolute paths, as errors of the system name them: in quotes, or by themselves. Addresses stay."""
_MODEL_TROUBLE = frozenset({"TransportError", "ModelError", "SettingsError"})


class Watcher(Protocol):
    """Looks on while an episode is played."""

    def take(self, event: Event) -> None:
        """Takes in one event."""
        ...

    def ended(self, how: str, seconds: float) -> None:
        """Told once, at the end: the outcome's name, or cancelled, timed_out, shut_down or broken."""
        ...


class Service:
    """One assembly, and everybody who wants answers from it.

    Args:
        assembly: Model, documents and method, opened.
        settings: What it was opened with.
        limits: What it takes on at most. A budget of the settings above theirs is lowered.

    Raises:
        CalibrationError: The settings ask for a guarantee that the lowered budget does not keep.
    """

    def __init__(self, assembly: Assembly, settings: Settings, limits: Limits) -> None:
        self.limits = limits
        self.settings = settings.model_copy(update={"budget": _lowered(settings.budget, limits.budget)})
        self.assembly = change_policy(assembly, self.settings)
        self.gate = Gate(limits.concurrency, limits.queue, longest=limits.timeout)
        self._plays: set[asyncio.Task[None]] = set()
        self._draining = False
        self._stopping = False
        self._model_failed: float | None = None

    @property
    def draining(self) -> bool:
        """Whether it takes no new questions because it is about to end."""
        return self._draining

    def model_is_ready(self) -> bool:
        """Whether nothing speaks against asking the model: asking it just to find out would cost tokens."""
        return self._model_failed is None or time.monotonic() - self._model_failed > _REST

    async def index_is_ready(self) -> bool:
        """Whether a search works."""
        try:
            await asyncio.to_thread(self.assembly.harness.retriever.search, "ready", 1)
        except Exception:
            return False
        return True

    def words(self, text: str) -> str:
        """The text without folders and the address of the model's server: nobody's business but the operator's."""
        server = self.assembly.model.identity.partition("@")[2].partition("#")[0]
        return _FOLDERS.sub("", text.replace(server, "the model server") if server else text)

    async def play(
        self, question: str, assembly: Assembly, watchers: Sequence[Watcher], tell: Callable[[Event], None]
    ) -> None:
        """Plays one episode to its end, or until it is cancelled.

        Raises:
            Problem: There is no place, the time is up, or the server ends.
        """
        if self._draining:
            raise _ending()
        task = asyncio.current_task()
        assert task is not None
        self._plays.add(task)
        began = time.monotonic()
        how = "broken"
        try:
            async with asyncio.timeout(self.limits.timeout), self.gate.place():
                last = await self._episode(question, assembly, watchers, tell)
            how = last.outcome.name
        except Overfull as full:
            how = ""
            raise self._busy(full) from None
        except TimeoutError:
            how = "timed_out"
            words = f"There was no answer within {self.limits.timeout:g} seconds."
            raise Problem(504, "timeout", words, remedy="Ask again later.") from None
        except asyncio.CancelledError:
            how = "shut_down" if self._stopping else "cancelled"
            if self._stopping:
                raise _ending() from None
            raise
        finally:
            self._plays.discard(task)
            if how:
                for watcher in watchers:
                    watcher.ended(how, time.monotonic() - began)
        # Told last: whoever hears of the end may count on the place being free and everything being written down.
        tell(last)

    async def drain(self) -> None:
        """Takes no more questions, lets those under way finish within the grace, then cancels them."""
        self._draining = True
        give_up = time.monotonic() + self.limits.grace
        while self._plays and time.monotonic() < give_up:
            await asyncio.wait(self._plays, timeout=give_up - time.monotonic())
        self._stopping = True
        for task in self._plays:
            task.cancel()

    async def aclose(self) -> None:
        """Lets go of the model."""
        await self.assembly.model.aclose()

    async def _episode(
        self, question: str, assembly: Assembly, watchers: Sequence[Watcher], tell: Callable[[Event], None]
    ) -> Finished:
        stream = loop.run(Question(question), assembly.method, assembly.harness)
        async with contextlib.aclosing(stream):
            async for event in stream:
                for watcher in watchers:
                    watcher.take(event)
                if isinstance(event, Finished):
                    self._note(event)
                    return event
                tell(event)
        raise RuntimeError("an episode ends with Finished")

    def _note(self, finished: Finished) -> None:
        outcome = finished.outcome
        if isinstance(outcome, Failed) and outcome.cause in _MODEL_TROUBLE:
            self._model_failed = time.monotonic()
        elif outcome.usage.calls > outcome.usage.cached_calls:
            self._model_failed = None

    def _busy(self, full: Overfull) -> Problem:
        return Problem(
            429,
            "busy",
            f"{self.gate.in_flight} questions are being answered and {self.gate.waiting} waiting.",
            remedy=f"Ask again in {full.retry_after} s.",
            headers={"Retry-After": str(full.retry_after)},
        )


def _lowered(budget: Budget, most: Budget) -> Budget:
    return replace(budget, **{name: min(getattr(budget, name), getattr(most, name)) for name in Budget.__slots__})


def _ending() -> Problem:
    return Problem(
        503, "shutting_down", "The server is shutting down.", remedy="Ask again later.", headers={"Retry-After": "5"}
    )
