"""A model that runs inside this process, so that BeliefRAG works without a server, a key or a network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from beliefrag.errors import ModelError, SettingsError
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.llama_engine import Generation, GenerationStoppedError, LlamaEngine, PromptTooLongError, read_head
from beliefrag.models.protocol import ChatReply, ChatRequest
from beliefrag.models.weights.catalogue import weights_with_hash
from beliefrag.models.weights.store import file_hash, weights_at

__all__ = ["Embedded", "EngineStatistics"]

_LEAST_CONTEXT = 256
_READ_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """What an embedded model has computed so far, and how much the kept prompts saved."""

    calls: int = 0
    tokens_read: int = 0
    """Prompt tokens that were computed."""
    tokens_reused: int = 0
    """Prompt tokens that were in memory from an earlier call."""

    def plus(self, generation: Generation) -> EngineStatistics:
        """Gives the statistics with one more call."""
        read = generation.tokens_in - generation.tokens_reused
        return EngineStatistics(self.calls + 1, self.tokens_read + read, self.tokens_reused + generation.tokens_reused)


class Embedded:
    """Runs weights in llama.cpp's format on this machine's processor.

    Nothing is loaded before the first call. Calls are answered one after another in the order in which they came: one
    model on one processor gains nothing from two calls at a time, and the next call often finds the beginning of its
    prompt in memory. A call that is cancelled while it waits is dropped; one that runs is stopped within a batch of the
    prompt or a token of the reply.

    A space is put into text that looks like a mark of the chat template ("<|im_end|>"), so that no passage can end its
    turn and begin another.

    The same prompt gives the same reply. How much of it was in memory moves the probabilities by about a percent, which
    can change the reply in a near tie; `reuse_prefix=False` makes them exact, and reads each prompt in full.

    Args:
        path: The weights; `beliefrag.models.weights.resolve` finds them by name.
        context: Tokens of a prompt and its reply together. A model that was trained on fewer gets fewer.
        threads: How many threads compute; by default one for each processor that this process may use.
        max_tokens: The longest reply where the request sets no limit.
        reuse_prefix: Whether to keep the state of earlier prompts for prompts that begin the same way.
        prompt_memory_mib: Memory for these states, besides the state of the last prompt.

    Raises:
        SettingsError: An argument cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        context: int = 4096,
        threads: int | None = None,
        max_tokens: int = 512,
        reuse_prefix: bool = True,
        prompt_memory_mib: int = 512,
    ) -> None:
        for name, value, least in (
            ("context", context, _LEAST_CONTEXT),
            ("threads", threads, 1),
            ("max_tokens", max_tokens, 1),
            ("prompt_memory_mib", prompt_memory_mib, 0),
        ):
            if value is not None and value < least:
                raise SettingsError(f"{name} of the embedded model must be at least {least}, not {value}.")
        self._path = Path(path).absolute()
        self._context = context
        self._threads = threads or _count_processors()
        self._max_tokens = max_tokens
        self._reuse = reuse_prefix
        self._memory = prompt_memory_mib if reuse_prefix else 0
        self._identity: str | None = None
        self._engine: LlamaEngine | None = None
        self._trained_context: int | None = None
        self._statistics = EngineStatistics()
        self._closed = threading.Event()
        # The only thread that touches the engine: that is what keeps calls in order and makes loading happen once.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-model")

    @property
    def identity(self) -> str:
        """`local:NAME:HASH`, so that known weights are recognised in whatever folder they are.

        Raises:
            ModelError: The weights cannot be read.
        """
        if self._identity is None:
            sha256 = file_hash(self._path)
            known = weights_with_hash(sha256)
            own = re.sub(r"[^\w.-]", "_", self._path.stem)
            self._identity = known.identity if known else f"local:{own}:{sha256[:16]}"
        return self._identity

    @property
    def statistics(self) -> EngineStatistics:
        """What the model has computed so far."""
        return self._statistics

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answers one request, after those that came before it.

        Raises:
            ModelError: The weights cannot be used, the prompt does not fit, or the model was closed.
            EmptyReplyError: The model generated no text.
        """
        if self._closed.is_set():
            raise _closed_error()
        cancelled = threading.Event()
        try:
            return await asyncio.wrap_future(self._worker.submit(self._answer, request, cancelled))
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def aclose(self) -> None:
        """Frees the memory. A running call is stopped. Calling it twice is harmless."""
        if self._closed.is_set():
            return
        self._closed.set()
        await asyncio.wrap_future(self._worker.submit(self._release))
        self._worker.shutdown(wait=False)

    def _answer(self, request: ChatRequest, cancelled: threading.Event) -> ChatReply:
        if self._closed.is_set():
            raise _closed_error()
        engine = self._engine = self._engine or self._load()
        limit = request.max_tokens or self._max_tokens
        started = time.perf_counter()
        try:
            generation = engine.generate(
                request.messages,
                max_tokens=limit,
                schema=request.schema,
                top_logprobs=request.top_logprobs,
                stop=request.stop,
                reuse=self._reuse,
                is_stopped=lambda: cancelled.is_set() or self._closed.is_set(),
            )
        except GenerationStoppedError:
            raise _closed_error() from None
        except PromptTooLongError as error:
            raise self._too_long(error.tokens, error.context, limit) from None
        self._statistics = self._statistics.plus(generation)
        if generation.finish == "length" and generation.tokens_out < limit:
            raise self._too_long(generation.tokens_in, generation.tokens_in + generation.tokens_out, limit)
        if not generation.text.strip():
            raise EmptyReplyError(
                "The embedded model generated no text.",
                remedy="Look at the prompt.",
                wasted_tokens=generation.tokens_in + generation.tokens_out,
            )
        return ChatReply(
            text=generation.text,
            tokens_in=generation.tokens_in,
            tokens_out=generation.tokens_out,
            seconds=time.perf_counter() - started,
            tokens=generation.tokens if request.top_logprobs else None,
            truncated=generation.finish == "length",
        )

    def _load(self) -> LlamaEngine:
        head = read_head(self._path)
        self._check_hash()
        # Loading holds Python's lock. It takes much less time when the file is in the memory of the operating system.
        with contextlib.suppress(OSError), self._path.open("rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass
        engine = LlamaEngine(
            self._path, head, context=self._context, threads=self._threads, prompt_memory_mib=self._memory
        )
        self._trained_context = head.context
        return engine

    def _check_hash(self) -> None:
        # llama.cpp loads damaged weights without an error and then answers nonsense.
        weights = weights_at(self._path)
        if weights is not None and file_hash(self._path) != weights.sha256:
            raise ModelError(
                f"The weights of {weights.name} on this machine are damaged: their hash is wrong.",
                remedy=f"Get them again with `beliefrag model pull {weights.name}`.",
            )

    def _release(self) -> None:
        self._engine = None

    def _too_long(self, tokens: int, context: int, limit: int) -> ModelError:
        shorter = "give fewer or shorter passages"
        if self._trained_context is not None and context >= self._trained_context:
            remedy = f"The model cannot read more: {shorter}, or use one with a longer context."
        else:
            remedy = f"Set BELIEFRAG_CONTEXT={tokens + limit} (the setting `context`) or more, or {shorter}."
        return ModelError(
            f"The prompt of {tokens} tokens and its reply do not fit the context of {context} tokens.", remedy=remedy
        )


def _count_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _closed_error() -> ModelError:
    return ModelError("The embedded model has been closed.")
