"""Never pays twice for the same question to the same model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from beliefrag.errors import ModelError, ReplayMiss
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest
from beliefrag.models.reply_store import ReplyStore

__all__ = ["Cache", "reply_key"]

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def reply_key(identity: str, request: ChatRequest) -> str:
    """Names a reply by the model's identity and the whole request, apart from its purpose.

    The order of a schema's fields counts: it is the order in which a model fills them in. Stop texts are in the name
    only of a request that has some: replies that were paid for before there were any keep theirs.
    """
    shape: list[Any] = [
        1,  # the version of this list
        identity,
        [[message.role, message.content] for message in request.messages],
        request.schema,
        request.max_tokens,
        request.top_logprobs,
        request.sample,
        0,  # the temperature; a provider that uses another says so in its identity
    ]
    if request.stop:
        shape.append(request.stop)
    return hashlib.sha256(json.dumps(shape, separators=(",", ":"), default=dict).encode()).hexdigest()


@dataclass(slots=True)
class _Flight:
    """A question under way, and how many are waiting for its reply."""

    task: asyncio.Task[ChatReply]
    waiting: int = 0


class Cache:
    """Answers from the store what was asked before, and stores what is new.

    The file is opened at once, so that an unusable one is reported before anything is paid for. The same request made
    twice at the same time is asked once. A reply that cannot be stored is returned all the same, with one warning in
    the log: it has been paid for.

    Args:
        model: Whom to ask what is not in the store.
        path: The store's file.
        replay: Use the store alone, and raise `ReplayMiss` for what it does not hold.

    Raises:
        SettingsError: The file cannot be used.
    """

    def __init__(self, model: ChatModel, path: Path | str, *, replay: bool = False) -> None:
        self._model = model
        self._replay = replay
        self._store = ReplyStore(path, read_only=replay)
        # Another process may hold the file's write lock for a while, and a commit waits for the disk: off the event
        # loop. One thread, because the connection is used by one at a time.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reply-cache")
        self._flights: dict[str, _Flight] = {}
        self._closed = False
        self._missing: set[str] = set()
        self._unsaved = 0

    @property
    def identity(self) -> str:
        """That of the model inside."""
        return self._model.identity

    @property
    def missing(self) -> int:
        """How many different requests a replay found no reply for."""
        return len(self._missing)

    @property
    def unsaved(self) -> int:
        """How many replies could not be stored."""
        return self._unsaved

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Gives the stored reply, or asks for one and stores it."""
        key = reply_key(self.identity, request)
        if self._replay:
            # A reader waits neither for another process nor for the disk, and handing over to the thread and back
            # takes longer than reading.
            return self._replayed(key, request)
        flight = self._flights.get(key)
        joined = flight is not None
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(self._find_or_ask(key, request)))
        flight.waiting += 1
        try:
            # The question belongs to all who wait: one of them giving up must not take it from the others.
            reply = await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                flight.task.cancel()
                if self._flights.get(key) is flight:
                    del self._flights[key]
        return replace(reply, cached=True) if joined else reply

    async def aclose(self) -> None:
        """Closes the store and the model inside. Calling it twice is harmless."""
        if not self._closed:
            self._closed = True
            await self._in_thread(self._store.close)
            self._thread.shutdown(wait=False)
        await self._model.aclose()

    def _replayed(self, key: str, request: ChatRequest) -> ChatReply:
        found = self._found(key)
        if found is None:
            self._missing.add(key)
            raise ReplayMiss(
                f"The cache holds no reply for this {request.purpose} call (key {key[:12]}).",
                remedy="Run it without replay, with the same model and settings.",
            )
        return found

    def _found(self, key: str) -> ChatReply | None:
        try:
            return self._store.get(key)
        except sqlite3.Error as error:
            raise ModelError(
                f"The reply cache {self._store.path} cannot be read: {error}.",
                remedy="Move the file away, or name another one.",
            ) from error

    async def _find_or_ask(self, key: str, request: ChatRequest) -> ChatReply:
        found = await self._in_thread(lambda: self._found(key))
        if found is not None:
            return found
        reply = await self._model.chat(request)
        try:
            return await self._in_thread(lambda: self._store.put(key, self.identity, reply))
        except sqlite3.Error as error:
            if not self._unsaved:
                _log.warning("The reply cache %s cannot be written: %s. Going on without.", self._store.path, error)
            self._unsaved += 1
            return reply

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        # Shielded, because work that still waits for the thread would be dropped: a reply paid for, and not stored.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
