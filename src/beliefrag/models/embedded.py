"""A model that runs inside this process, so that BeliefRAG works without a server, a key or a network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from beliefrag.errors import ModelError, SettingsError
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.llama_engine import Engine, GenerationStoppedError
from beliefrag.models.llama_reply import Generation, PromptTooLongError
from beliefrag.models.protocol import ChatReply, ChatRequest
from beliefrag.models.weights.catalogue import with_hash
from beliefrag.models.weights.fingerprint import fingerprint
from beliefrag.models.weights.gguf import read_head
from beliefrag.models.weights.store import kept_at

__all__ = ["Embedded", "Work"]

_LEAST_CONTEXT = 256
_READ = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Work:
    """What an embedded model has done so far: for judging its speed, and what prompt order saves."""

    calls: int = 0
    seconds_loading: float = 0.0
    tokens_read: int = 0
    """Prompt tokens that were computed."""
    tokens_reused: int = 0
    """Prompt tokens that were still in memory from an earlier call."""
    seconds_reading: float = 0.0
    tokens_written: int = 0
    seconds_writing: float = 0.0

    def plus(self, generation: Generation) -> Work:
        """The same with one more call."""
        return replace(
            self,
            calls=self.calls + 1,
            tokens_read=self.tokens_read + generation.tokens_in - generation.tokens_reused,
            tokens_reused=self.tokens_reused + generation.tokens_reused,
            seconds_reading=self.seconds_reading + generation.seconds_reading,
            tokens_written=self.tokens_written + generation.tokens_out,
            seconds_writing=self.seconds_writing + generation.seconds_writing,
        )


class Embedded:
    """Runs weights in llama.cpp's format on this machine's processor.

    Nothing is loaded before the first call. Calls are answered one after another in the order in which they came: one
    model on one processor gains nothing from two at a time, and the next call finds the beginning of its prompt still
    in memory. A call that is cancelled while it waits is dropped; one that runs is broken off within a batch of the
    prompt or a token of the reply.

    Text in a message that reads like a mark of the chat template ("<|im_end|>") is broken up with a space, so that no
    passage can end its turn and begin another.

    The same prompt gives the same reply. How much of it was still in memory moves the probabilities by a percent or so,
    which can tip a near tie; `reuse_prefix=False` makes them exact, and reads each prompt in full.

    Args:
        path: The weights; see `beliefrag.models.weights.resolve` for names.
        context: Tokens of a prompt and its reply together. A model that was trained on fewer gets fewer.
        threads: How many threads compute; by default one for each processor that this process may use.
        max_tokens: The longest reply to a request that sets no limit itself.
        reuse_prefix: Whether to keep what was computed for the beginning of earlier prompts.
        prompt_memory_mib: Memory for that, besides the prompt of the last call.

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
        self._threads = threads or _processors()
        self._max_tokens = max_tokens
        self._reuse = reuse_prefix
        self._memory = prompt_memory_mib if reuse_prefix else 0
        self._identity: str | None = None
        self._engine: Engine | None = None
        self._longest: int | None = None
        self._work = Work()
        self._closed = threading.Event()
        # The only thread that touches the engine: that is what keeps calls in order and makes loading happen once.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-model")

    @property
    def identity(self) -> str:
        """`local:NAME:HASH`, so that known weights are recognised wherever they lie.

        Raises:
            ModelError: The weights cannot be read.
        """
        if self._identity is None:
            sha256 = fingerprint(self._path)
            known = with_hash(sha256)
            own = re.sub(r"[^\w.-]", "_", self._path.stem)
            self._identity = known.identity if known else f"local:{own}:{sha256[:16]}"
        return self._identity

    @property
    def work(self) -> Work:
        """What has been done so far."""
        return self._work

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answers one request, after those that came before it.

        Raises:
            ModelError: The weights cannot be used, the prompt does not fit, or the model was closed.
            EmptyReplyError: The model generated no text.
        """
        if self._closed.is_set():
            raise _closed()
        cancelled = threading.Event()
        try:
            return await asyncio.wrap_future(self._worker.submit(self._answer, request, cancelled))
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def aclose(self) -> None:
        """Frees the memory. A call that is under way is broken off. Calling it twice is harmless."""
        if self._closed.is_set():
            return
        self._closed.set()
        await asyncio.wrap_future(self._worker.submit(self._release))
        self._worker.shutdown(wait=False)

    def _answer(self, request: ChatRequest, cancelled: threading.Event) -> ChatReply:
        if self._closed.is_set():
            raise _closed()
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
                broken_off=lambda: cancelled.is_set() or self._closed.is_set(),
            )
        except GenerationStoppedError:
            raise _closed() from None
        except PromptTooLongError as error:
            raise self._too_long(error.tokens, error.context, limit) from None
        self._work = self._work.plus(generation)
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

    def _load(self) -> Engine:
        started = time.perf_counter()
        head = read_head(self._path)
        self._check_kept()
        # Loading holds Python's lock throughout. With the file in memory already, it does so for much less long.
        with contextlib.suppress(OSError), self._path.open("rb", buffering=0) as file:
            while file.read(_READ):
                pass
        engine = Engine(
            self._path,
            context=min(self._context, head.context or self._context),
            threads=self._threads,
            prompt_memory_mib=self._memory,
            control_tokens=head.control_tokens,
        )
        self._longest = head.context
        self._work = replace(self._work, seconds_loading=time.perf_counter() - started)
        return engine

    def _check_kept(self) -> None:
        # A changed weight does not stop llama.cpp: it would answer nonsense without a word.
        weights = kept_at(self._path)
        if weights is not None and fingerprint(self._path) != weights.sha256:
            raise ModelError(
                f"The weights of {weights.name} on this machine are damaged: their hash is wrong.",
                remedy=f"Get them again with `beliefrag model pull {weights.name}`.",
            )

    def _release(self) -> None:
        self._engine = None

    def _too_long(self, tokens: int, context: int, limit: int) -> ModelError:
        shorter = "give fewer or shorter passages"
        if self._longest is not None and context >= self._longest:
            remedy = f"The model cannot read more: {shorter}, or use one with a longer context."
        else:
            remedy = f"Set BELIEFRAG_CONTEXT={tokens + limit} (the setting `context`) or more, or {shorter}."
        return ModelError(
            f"The prompt of {tokens} tokens and its reply do not fit the context of {context} tokens.", remedy=remedy
        )


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _closed() -> ModelError:
    return ModelError("The embedded model has been closed.")
