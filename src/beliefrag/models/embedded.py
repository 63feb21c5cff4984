"""A model that runs inside this process with llama.cpp: no server, no key, no network.

`LlamaEngine` has everything that is particular to the GGUF format and to the `xllamacpp` binding. It blocks; `Embedded`
keeps it off the event loop. The package is imported when the first model is loaded, because it brings 100 MB of native
code that most commands never need.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import re
import secrets
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beliefrag.errors import ModelError, ReplyError, SettingsError
from beliefrag.models.failures import EmptyReplyError, one_line
from beliefrag.models.protocol import ChatReply, ChatRequest, TokenProbability, count_pieces
from beliefrag.models.weights import file_hash, weights_at, weights_with_hash

__all__ = [
    "Embedded",
    "Generation",
    "GenerationStoppedError",
    "GgufHead",
    "LlamaEngine",
    "PromptTooLongError",
    "check_is_gguf",
    "join_chunks",
    "read_head",
]

_BATCH = 128
"""Tokens of a prompt that are read between two checks whether to stop. On a CPU larger batches are no faster."""
_COMPACT_JSON = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": True,
    "coerce_one_of": True,
}
"""How the grammar writes JSON. Free white space lets a small model write newlines without end. Without the last two,
one keyword that the grammar does not know (`format`, `uniqueItems`, ...) would silently switch the whole schema off."""


class Embedded:
    """Runs weights in llama.cpp's format on this machine's processor.

    Nothing is loaded before the first call. Calls are answered one after another in the order in which they came: one
    model on one processor gains nothing from two calls at a time, and the next call often finds the beginning of its
    prompt in memory. A call that is cancelled while it waits is dropped; one that runs is stopped within a batch of the
    prompt or a token of the reply.

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
            ("context", context, 256),
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

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer one request, after those that came before it.

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
        """Free the memory. A running call is stopped. Calling it twice is harmless."""
        if self._closed.is_set():
            return
        self._closed.set()
        await asyncio.wrap_future(self._worker.submit(setattr, self, "_engine", None))
        self._worker.shutdown(wait=False)

    def _answer(self, request: ChatRequest, cancelled: threading.Event) -> ChatReply:
        if self._closed.is_set():
            raise _closed_error()
        engine = self._engine = self._engine or self._load()
        limit = request.max_tokens or self._max_tokens
        started = time.perf_counter()
        try:
            generation = engine.generate(
                request,
                max_tokens=limit,
                reuse=self._reuse,
                is_stopped=lambda: cancelled.is_set() or self._closed.is_set(),
            )
        except GenerationStoppedError:
            raise _closed_error() from None
        except PromptTooLongError as error:
            raise _too_long(error.tokens, error.context, limit, engine.head) from None
        if generation.finish == "length" and generation.tokens_out < limit:
            context = generation.tokens_in + generation.tokens_out
            raise _too_long(generation.tokens_in, context, limit, engine.head)
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
        known = weights_at(self._path)
        if known is not None and file_hash(self._path) != known.sha256:
            # llama.cpp loads damaged weights without an error and then answers nonsense.
            raise ModelError(
                f"The weights of {known.name} on this machine are damaged: their hash is wrong.",
                remedy=f"Get them again with `beliefrag model pull {known.name}`.",
            )
        # Loading holds Python's lock. It takes much less time when the file is in the memory of the operating system.
        with contextlib.suppress(OSError), self._path.open("rb", buffering=0) as file:
            while file.read(8 * 1024 * 1024):
                pass
        return LlamaEngine(
            self._path, head, context=self._context, threads=self._threads, prompt_memory_mib=self._memory
        )


def _count_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _closed_error() -> ModelError:
    return ModelError("The embedded model has been closed.")


def _too_long(tokens: int, context: int, limit: int, head: GgufHead) -> ModelError:
    shorter = "give fewer or shorter passages"
    if head.context is not None and context >= head.context:
        remedy = f"The model cannot read more: {shorter}, or use one with a longer context."
    else:
        remedy = f"Set BELIEFRAG_CONTEXT={tokens + limit} (the setting `context`) or more, or {shorter}."
    return ModelError(
        f"The prompt of {tokens} tokens and its reply do not fit the context of {context} tokens.", remedy=remedy
    )


class GenerationStoppedError(Exception):
    """The caller stopped the generation; the argument is the number of pieces that had come."""


class PromptTooLongError(Exception):
    """The prompt does not fit the context."""

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__(tokens, context)
        self.tokens = tokens
        self.context = context


@dataclass(frozen=True, slots=True)
class Generation:
    """The text of one call, with what the engine measured."""

    text: str
    finish: str
    """`stop`, or `length` when the tokens or the context ran out."""
    tokens: tuple[TokenProbability, ...]
    tokens_in: int
    tokens_out: int
    tokens_reused: int
    """Tokens of the prompt that were in memory from an earlier call."""


class LlamaEngine:
    """One model in memory.

    Raises:
        ModelError: The weights cannot be loaded.
    """

    def __init__(self, path: Path, head: GgufHead, *, context: int, threads: int, prompt_memory_mib: int) -> None:
        # With the default policy idle OpenMP threads spin; on a busy machine that starves the working ones.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        try:
            import xllamacpp  # noqa: PLC0415 - heavy, see above
        except ImportError as error:
            raise ModelError(
                f"The embedded runtime cannot be imported: {one_line(str(error))}.",
                remedy="Reinstall it with `pip install --force-reinstall xllamacpp`, or use a model server.",
            ) from None
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx = min(context, head.context or context)
        parameters.n_parallel = 1
        parameters.n_batch = parameters.n_ubatch = _BATCH
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        parameters.cache_ram_mib = prompt_memory_mib
        parameters.ctx_shift = False
        parameters.enable_reasoning = 0
        parameters.warmup = False
        parameters.verbosity = 0
        # The binding always opens a port on the loopback interface. Nobody is given this key.
        parameters.api_keys = [secrets.token_urlsafe(32)]
        parameters.n_threads_http = 1
        parameters.ui = False
        parameters.endpoint_slots = False
        self.head = head
        # Longest first, so that a mark that begins with another one is found whole.
        marks = sorted(head.control_tokens, key=len, reverse=True)
        self._marks = re.compile("|".join(map(re.escape, marks))) if marks else None
        self._to_grammar: Callable[[Mapping[str, Any]], str] = xllamacpp.json_schema_to_grammar
        try:
            self._server = xllamacpp.Server(parameters)
        except (RuntimeError, ValueError, MemoryError):
            raise ModelError(
                f"The weights {path} cannot be loaded: damaged, incomplete, too large for the memory, or of a kind "
                "that the runtime does not know.",
                remedy="Get the file again, lower the context, or use other weights.",
            ) from None

    def generate(
        self, request: ChatRequest, *, max_tokens: int, reuse: bool, is_stopped: Callable[[], bool]
    ) -> Generation:
        """Generate one reply at temperature 0. A reply that ends in the beginning of a stop text comes without that.

        Args:
            request: What to answer.
            max_tokens: The longest reply.
            reuse: Whether the memory of earlier prompts may be used.
            is_stopped: Called after every batch of the prompt and every token; True ends the generation.

        Raises:
            GenerationStoppedError: `is_stopped` returned True.
            PromptTooLongError: The prompt does not fit.
            ModelError: The request was refused.
        """
        body: dict[str, Any] = {
            "messages": [
                {"role": message.role, "content": self._without_marks(message.content)} for message in request.messages
            ],
            "temperature": 0,
            "max_tokens": max_tokens,
            "cache_prompt": reuse,
            # Streamed within the process only: this is the one way to stop a generation.
            "stream": True,
            "return_progress": True,
            "stream_options": {"include_usage": True},
        }
        if request.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if request.stop:
            body["stop"] = list(request.stop)
        chunks: list[dict[str, Any]] = []

        def take(chunk: dict[str, Any]) -> bool:
            chunks.append(chunk)
            return is_stopped()

        try:
            if request.schema is not None:
                # Not `response_format`: that also allows a code fence, which is cut from the text but not from the
                # tokens, and then probabilities and text no longer match.
                body["grammar"] = self._to_grammar({**request.schema, "x-guidance": _COMPACT_JSON})
            self._server.handle_chat_completions(body, take)
        except (RuntimeError, ValueError, TypeError) as error:
            raise _refusal(str(error)) from None
        if is_stopped():
            raise GenerationStoppedError(len(chunks))
        generation = join_chunks(chunks)
        if request.stop:
            # The tokens of the stop text are reported, and its text is not.
            kept = count_pieces([token.token for token in generation.tokens], len(generation.text))
            generation = replace(generation, tokens=generation.tokens[:kept])
        if request.schema is not None and not _follows(request.schema, generation):
            raise ModelError(
                "The embedded model cannot follow this JSON schema.", remedy="Check the schema, or make it simpler."
            )
        return generation

    def _without_marks(self, text: str) -> str:
        """Put a space into text that looks like a mark of the chat template ("<|im_end|>").

        llama.cpp cannot tell the two apart: a passage could end its turn and begin another.
        """
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ModelError(
                "The request holds text that is not valid Unicode.", remedy="Read the document again as UTF-8."
            ) from None
        return self._marks.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}", text) if self._marks else text


def join_chunks(chunks: Sequence[Mapping[str, Any]]) -> Generation:
    """Join the chunks of a streamed reply.

    A character that takes several tokens is one entry among the tokens, with the probability of its last piece: that is
    how llama.cpp reports it.

    Raises:
        PromptTooLongError: The prompt did not fit.
        ModelError: The request was refused.
        ReplyError: The reply has no end.
    """
    for chunk in chunks:
        if (error := chunk.get("error")) is not None:
            if error.get("type") == "exceed_context_size_error":
                raise PromptTooLongError(error["n_prompt_tokens"], error["n_ctx"])
            raise _refusal(str(error.get("message", error)))
    choices = [choice for chunk in chunks for choice in chunk.get("choices", ())]
    last = chunks[-1] if chunks else {}
    if "usage" not in last or "timings" not in last:
        raise ReplyError("The embedded model ended its reply too early.", remedy="Ask again.")
    tokens = [token for choice in choices for token in (choice.get("logprobs") or {}).get("content") or ()]
    return Generation(
        text="".join(choice["delta"].get("content") or "" for choice in choices),
        finish=next((choice["finish_reason"] for choice in reversed(choices) if choice["finish_reason"]), ""),
        tokens=tuple(
            TokenProbability(
                token["token"],
                token["logprob"],
                tuple((other["token"], other["logprob"]) for other in token.get("top_logprobs", ())),
            )
            for token in tokens
        ),
        tokens_in=last["usage"]["prompt_tokens"],
        tokens_out=last["usage"]["completion_tokens"],
        tokens_reused=last["timings"]["cache_n"],
    )


def _follows(schema: Mapping[str, Any], generation: Generation) -> bool:
    """Return whether the schema was enforced: llama.cpp silently drops one that it cannot turn into a grammar."""
    is_object = schema.get("type") == "object"
    if generation.finish == "length":
        return not is_object or generation.text.startswith("{")
    try:
        value = json.loads(generation.text)
        return not is_object or set(schema.get("required", ())) <= set(value)
    except (ValueError, TypeError):
        return False


def _refusal(said: str) -> ModelError:
    return ModelError(
        f"The embedded model refused the request: {one_line(said)}",
        remedy="Look at the roles of the messages and at the schema.",
    )


_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_CONTROL, _USER_DEFINED = 3, 4
_TOKENS, _TOKEN_TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"


@dataclass(frozen=True, slots=True)
class GgufHead:
    """What the binding does not report about a GGUF file."""

    context: int | None
    """How many tokens the model was trained to read; None if unknown."""
    control_tokens: tuple[str, ...]
    """Texts that the tokenizer reads as marks of the chat template, such as the end of a turn."""


def check_is_gguf(path: Path) -> None:
    """Check the first bytes of weights, which takes no time.

    Raises:
        ModelError: The file cannot be read, or is not GGUF.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(4)
    except OSError as error:
        raise ModelError(
            f"The weights {path} cannot be read: {error.strerror}.", remedy="Check the path of the weights."
        ) from None
    if begin != b"GGUF":
        raise ModelError(f"{path} is not a GGUF file.", remedy="Give weights in llama.cpp's format (*.gguf).")


def read_head(path: Path) -> GgufHead:
    """Read the head of a GGUF file, which may come from anywhere.

    Raises:
        ModelError: The file cannot be read, is not GGUF, or ends too early.
    """
    check_is_gguf(path)
    values: dict[str, Any] = {}
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for key, value in _read_values(data):
                values[key] = value
                # What follows the vocabulary is long (the merges) and not needed here.
                if _TOKENS in values and _TOKEN_TYPES in values:
                    break
    except (struct.error, KeyError, OverflowError):
        raise ModelError(
            f"{path} is damaged, incomplete or of an old version: its head cannot be read.",
            remedy="Get the file again.",
        ) from None
    context = values.get(f"{values.get('general.architecture')}.context_length")
    tokens, types = values.get(_TOKENS), values.get(_TOKEN_TYPES)
    return GgufHead(
        context=context if isinstance(context, int) and context > 0 else None,
        control_tokens=tuple(text for text, kind in zip(tokens, types, strict=False) if _is_control(text, kind))
        if isinstance(tokens, list) and isinstance(types, tuple)
        else (),
    )


def _read_values(data: mmap.mmap) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values. A length that reaches beyond the file ends in `struct.error`."""
    at = 4

    def take(code: str) -> tuple[Any, ...]:
        nonlocal at
        numbers = struct.unpack_from(f"<{code}", data, at)
        at += struct.calcsize(f"<{code}")
        return numbers

    def text() -> str:
        (length,) = take("Q")
        return bytes(take(f"{length}s")[0]).decode("utf-8", "replace")

    def value(kind: int) -> Any:
        if kind == _STRING:
            return text()
        if kind == _ARRAY:
            kind, count = take("IQ")
            return [text() for _ in range(count)] if kind == _STRING else take(f"{count}{_NUMBERS[kind]}")
        return take(_NUMBERS[kind])[0]

    version, _, count = take("IQQ")
    if version not in (2, 3):
        raise KeyError(version)
    for _ in range(count):
        yield text(), value(take("I")[0])


def _is_control(text: str, kind: int) -> bool:
    # llama.cpp turns some user-defined tokens into control tokens by their text; all of these look like markup.
    markup = text[:1] + text[-1:] in ("<>", "[]")
    return len(text) > 2 and (kind == _CONTROL or (kind == _USER_DEFINED and markup))
