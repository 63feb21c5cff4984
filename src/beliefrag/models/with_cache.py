"""Answers a request from the cache where the same model was sent the same request before."""

from __future__ import annotations

import asyncio
import contextlib
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
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest, ModelLayer
from beliefrag.models.reply_store import DamagedReplyError, ReplyStore

__all__ = ["CachedModel", "reply_key"]

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def reply_key(identity: str, request: ChatRequest) -> str:
    """Gives the key of a reply: a hash of the model's identity and of the whole request except its purpose.

    The order of a schema's fields counts, because a model fills them in that order. Stop texts are part of the key only
    for a request that has some: replies that were stored before stop texts existed keep their keys.
    """
    parts: list[Any] = [
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
        parts.append(request.stop)
    return hashlib.sha256(json.dumps(parts, separators=(",", ":"), default=dict).encode()).hexdigest()


@dataclass(slots=True)
class _PendingCall:
    """A request that is being answered, and how many callers wait for its reply."""

    task: asyncio.Task[ChatReply]
    waiting: int = 0


class CachedModel(ModelLayer):
    """Answers from the store where it holds the reply; otherwise calls the model and stores its reply.

    The store is opened at once, so that an unusable one is reported before anything is paid for. Two equal requests at
    the same time make one call. A reply that cannot be stored is still returned, because it has been paid for; the
    first such reply puts a warning in the log. A stored reply that is damaged is removed, and the model is asked again.

    Args:
        model: The model that answers what the store does not hold.
        path: The store's file.
        replay: Use the store alone, and raise `ReplayMiss` for requests that it does not hold.

    Raises:
        SettingsError: The store cannot be used.
    """

    def __init__(self, model: ChatModel, path: Path, *, replay: bool = False) -> None:
        super().__init__(model)
        self._replay = replay
        self._store = ReplyStore(path, read_only=replay)
        # Another process may hold the file's write lock for a while, and a commit waits for the
        # disk: not on the event loop. One thread, because only one thread at a time may use the connection.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reply-cache")
        self._pending: dict[str, _PendingCall] = {}
        self._closed = False
        self._missing: set[str] = set()
        self._unsaved = 0

    @property
    def missing_keys(self) -> frozenset[str]:
        """The keys of the requests that a replay found no reply for."""
        return frozenset(self._missing)

    @property
    def unsaved(self) -> int:
        """How many replies could not be stored."""
        return self._unsaved

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Returns the stored reply, or calls the model and stores its reply."""
        key = reply_key(self.identity, request)
        if self._replay:
            # Reading a file waits for no other process, and handing the work to the thread would take longer than the
            # work.
            return self._replay_reply(key, request)
        call = self._pending.get(key)
        joined = call is not None
        if call is None:
            call = self._pending[key] = _PendingCall(asyncio.create_task(self._find_or_call(key, request)))
        call.waiting += 1
        try:
            # All waiting callers share the call: when one of them is cancelled, the others still get the reply.
            reply = await asyncio.shield(call.task)
        finally:
            call.waiting -= 1
            if not call.waiting:
                call.task.cancel()
                if self._pending.get(key) is call:
                    del self._pending[key]
        return replace(reply, cached=True) if joined else reply

    async def aclose(self) -> None:
        """Closes the store and the model inside. Calling it twice is harmless."""
        if not self._closed:
            self._closed = True
            await self._in_thread(self._store.close)
            self._thread.shutdown(wait=False)
        await self._model.aclose()

    def _replay_reply(self, key: str, request: ChatRequest) -> ChatReply:
        problem = "The cache holds no reply for"
        try:
            found = self._find(key)
        except DamagedReplyError:
            found, problem = None, "The cached reply is damaged for"
        if found is None:
            self._missing.add(key)
            raise ReplayMiss(
                f"{problem} this {request.purpose} call (key {key[:12]}).",
                remedy="Run it without replay, with the same model and settings.",
            )
        return found

    def _find(self, key: str) -> ChatReply | None:
        try:
            return self._store.get(key)
        except sqlite3.Error as error:
            raise ModelError(
                f"The reply cache {self._store.path} cannot be read: {error}.",
                remedy="Set BELIEFRAG_CACHE_DIR to another folder, or use --no-cache.",
            ) from error

    def _find_whole(self, key: str) -> ChatReply | None:
        """Gives the stored reply; a damaged one is removed, so that the live reply can take its place."""
        try:
            return self._find(key)
        except DamagedReplyError as error:
            _log.warning("%s It is removed, and the model is asked again.", error.message)
            with contextlib.suppress(sqlite3.Error):
                self._store.remove(key)
            return None

    async def _find_or_call(self, key: str, request: ChatRequest) -> ChatReply:
        found = await self._in_thread(lambda: self._find_whole(key))
        if found is not None:
            return found
        reply = await self._model.chat(request)
        try:
            return await self._in_thread(lambda: self._store.put(key, self.identity, reply))
        except sqlite3.Error as error:
            if not self._unsaved:
                _log.warning(
                    "The reply cache %s cannot be written: %s. The run continues without storing replies.",
                    self._store.path,
                    error,
                )
            self._unsaved += 1
            return reply

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        # Shielded, because a cancellation would drop work that waits for the thread: a reply paid for, and not stored.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
