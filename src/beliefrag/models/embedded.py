"""A model that runs inside this process with llama.cpp: no server, no key, no network.

`LlamaEngine` holds what is particular to the `xllamacpp` binding, and blocks; `Embedded` keeps it off the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from beliefrag.errors import ModelError, ReplyError
from beliefrag.models.failures import EmptyReplyError, one_line
from beliefrag.models.protocol import ChatReply, ChatRequest, TokenProbability, count_pieces
from beliefrag.models.weights import file_hash, weights_at, weights_with_hash

_BATCH = 128
"""Tokens of a prompt that are read between two checks whether to stop. On a CPU larger batches are not faster."""
_LONGEST_REPLY = 512
"""Tokens of a reply where the request sets no limit."""
_COMPACT_JSON = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": True,
    "coerce_one_of": True,
}
"""How the grammar writes JSON. A small model would write newlines without end; without the last two, one keyword that
the grammar does not know (`format`, ...) would silently switch the whole schema off."""
_USUAL_MARK = r"<[|\uff5c][^\s<>]{1,80}>"
_MARK_IN_TEMPLATE = re.compile(r"<[^\s<>'\"]{1,80}>|\[[/|]?[A-Za-z_|]{2,}\]")


class Embedded:
    """Runs weights in llama.cpp's format on this machine's processor, one call after another, loaded at the first.

    Keeping the state of earlier prompts (in `prompt_memory_mib`) moves the probabilities by about a percent;
    `reuse_prefix=False` makes them exact, and reads each prompt in full.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        context: int = 4096,
        threads: int | None = None,
        reuse_prefix: bool = True,
        prompt_memory_mib: int = 512,
    ) -> None:
        self._path = Path(path).absolute()
        self._options: dict[str, Any] = {
            "context": context,
            "threads": threads or (len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1),
            "reuse_prefix": reuse_prefix,
            "prompt_memory_mib": prompt_memory_mib,
        }
        self._identity: str | None = None
        self._engine: LlamaEngine | None = None
        self._closed = threading.Event()
        # The only thread that touches the engine: that is what keeps calls in order and makes loading happen once.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-model")

    @property
    def identity(self) -> str:
        """`local:NAME:HASH` so that known weights are recognised in whatever folder they are."""
        if self._identity is None:
            sha256 = file_hash(self._path)
            known = weights_with_hash(sha256)
            own = re.sub(r"[^\w.-]", "_", self._path.stem)
            self._identity = known.identity if known else f"local:{own}:{sha256[:16]}"
        return self._identity

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer one request, after those that came before it."""
        if self._closed.is_set():
            raise _closed_error()
        cancelled = threading.Event()
        if request.on_text is not None:
            loop, on_text = asyncio.get_running_loop(), request.on_text
            request = replace(request, on_text=lambda text: loop.call_soon_threadsafe(on_text, text))
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
        return engine.generate(
            request,
            max_tokens=request.max_tokens or _LONGEST_REPLY,
            is_stopped=lambda: cancelled.is_set() or self._closed.is_set(),
        )

    def _load(self) -> LlamaEngine:
        check_is_gguf(self._path)
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
        return LlamaEngine(self._path, **self._options)


def _closed_error() -> ModelError:
    return ModelError("The embedded model has been closed.")


class LlamaEngine:
    """One model in memory."""

    def __init__(self, path: Path, *, context: int, threads: int, reuse_prefix: bool, prompt_memory_mib: int) -> None:
        # With the default policy idle OpenMP threads spin; on a busy machine that starves the working ones.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        try:
            import xllamacpp  # noqa: PLC0415 - heavy, see above
        except ImportError as error:
            remedy = "Reinstall it with `pip install --force-reinstall xllamacpp`, or use a model server."
            raise ModelError(
                f"The embedded runtime cannot be imported: {one_line(str(error))}.", remedy=remedy
            ) from None
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx = context
        parameters.n_parallel = 1
        parameters.n_batch = parameters.n_ubatch = _BATCH
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        parameters.cache_ram_mib = prompt_memory_mib if reuse_prefix else 0
        parameters.ctx_shift = False
        parameters.enable_reasoning = 0
        parameters.warmup = False
        parameters.verbosity = 0
        # The binding always opens a port on the loopback interface. Nobody is given this key.
        key = secrets.token_urlsafe(32)
        parameters.api_keys = [key]
        parameters.n_threads_http = 1
        parameters.ui = False
        parameters.endpoint_slots = False
        self._context = context
        self._reuse = reuse_prefix
        self._to_grammar: Callable[[Mapping[str, Any]], str] = xllamacpp.json_schema_to_grammar
        try:
            self._server = xllamacpp.Server(parameters)
        except (RuntimeError, ValueError, MemoryError):
            raise ModelError(
                f"The weights {path} cannot be loaded: damaged, incomplete, too large for the memory, or of a kind "
                "that the runtime does not know.",
                remedy="Get the file again, lower the context, or use other weights.",
            ) from None
        self._marks = _read_marks(self._server.listening_address, key)

    def generate(self, request: ChatRequest, *, max_tokens: int, is_stopped: Callable[[], bool]) -> ChatReply:
        """Generate one reply at temperature 0; `is_stopped` ends it between batches and tokens."""
        started = time.perf_counter()
        body: dict[str, Any] = {
            "messages": [
                {"role": message.role, "content": self._without_marks(message.content)} for message in request.messages
            ],
            "temperature": 0,
            "max_tokens": max_tokens,
            "cache_prompt": self._reuse,
            "stream": True,  # the one way to stop a generation
            "return_progress": True,
            "stream_options": {"include_usage": True},
        }
        if request.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if request.stop:
            body["stop"] = list(request.stop)
        chunks: list[dict[str, Any]] = []
        written = ""

        def take(chunk: dict[str, Any]) -> bool:
            nonlocal written
            chunks.append(chunk)
            stopped = is_stopped()
            if request.on_text is not None and not stopped and (piece := _text_of((chunk,))):
                written += piece
                request.on_text(written)
            return stopped

        try:
            if request.schema is not None:
                # `response_format` also allows a code fence, which is cut from the text but not from the tokens.
                body["grammar"] = self._to_grammar({**request.schema, "x-guidance": _COMPACT_JSON})
            self._server.handle_chat_completions(body, take)
        except (RuntimeError, ValueError, TypeError) as error:
            raise _refusal(str(error)) from None
        if is_stopped():
            raise _closed_error()
        if problem := next((chunk["error"] for chunk in chunks if chunk.get("error")), None):
            if problem.get("type") == "exceed_context_size_error":
                raise self._too_long(problem["n_prompt_tokens"], problem["n_ctx"], max_tokens)
            raise _refusal(str(problem.get("message", problem)))
        reply = _join_chunks(chunks, request, time.perf_counter() - started)
        if request.schema is not None and not _follows(request.schema, reply):
            remedy = "Check the schema, or make it simpler."
            raise ModelError("The embedded model cannot follow this JSON schema.", remedy=remedy)
        if reply.truncated and reply.tokens_out < max_tokens:
            raise self._too_long(reply.tokens_in, reply.tokens_in + reply.tokens_out, max_tokens)
        if not reply.text.strip():
            wasted = reply.tokens_in + reply.tokens_out
            raise EmptyReplyError(
                "The embedded model generated no text.", remedy="Look at the prompt.", wasted_tokens=wasted
            )
        return reply

    def _too_long(self, tokens: int, context: int, max_tokens: int) -> ModelError:
        shorter = "give fewer or shorter passages"
        # llama.cpp gives a model no more context than it was trained on.
        if context < self._context:
            remedy = f"The model cannot read more: {shorter}, or use one with a longer context."
        else:
            remedy = f"Set BELIEFRAG_CONTEXT={tokens + max_tokens} (the setting `context`) or more, or {shorter}."
        return ModelError(
            f"The prompt of {tokens} tokens and its reply do not fit the context of {context} tokens.", remedy=remedy
        )

    def _without_marks(self, text: str) -> str:
        """Put a space into text that looks like a mark of the chat template: a passage could end its turn with it."""
        try:
            text.encode()
        except UnicodeEncodeError:
            remedy = "Read the document again as UTF-8."
            raise ModelError("The request holds text that is not valid Unicode.", remedy=remedy) from None
        return self._marks.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}", text)


def _read_marks(address: str, key: str) -> re.Pattern[str]:
    """Return the pattern of all texts that may be marks of the chat template, which the runtime's server reports."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    try:
        with contextlib.closing(connection):
            connection.request("GET", "/props", headers={"Authorization": f"Bearer {key}"})
            about = json.loads(connection.getresponse().read())
        marks = {about["bos_token"], about["eos_token"], *_MARK_IN_TEMPLATE.findall(about["chat_template"])}
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        raise ModelError(f"The embedded runtime does not report its chat template: {one_line(repr(error))}.") from None
    # Longest first so that a mark that begins with another one is found whole.
    known = sorted((mark for mark in marks if len(mark) > 2), key=len, reverse=True)
    return re.compile("|".join((_USUAL_MARK, *map(re.escape, known))))


def _text_of(chunks: Sequence[Mapping[str, Any]]) -> str:
    choices = (choice for chunk in chunks for choice in chunk.get("choices", ()))
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def _join_chunks(chunks: Sequence[Mapping[str, Any]], request: ChatRequest, seconds: float) -> ChatReply:
    """Join the chunks of a streamed reply; llama.cpp reports a character of several tokens as one."""
    choices = [choice for chunk in chunks for choice in chunk.get("choices", ())]
    last = chunks[-1] if chunks else {}
    if "usage" not in last:
        raise ReplyError("The embedded model ended its reply too early.", remedy="Ask again.")
    text = _text_of(chunks)
    finish = next((choice["finish_reason"] for choice in reversed(choices) if choice["finish_reason"]), "")
    tokens = [token for choice in choices for token in (choice.get("logprobs") or {}).get("content") or ()]
    if request.stop:
        # The tokens of the stop text are reported, and its text is not.
        tokens = tokens[: count_pieces([token["token"] for token in tokens], len(text))]
    probabilities = tuple(
        TokenProbability(
            token["token"],
            token["logprob"],
            tuple((other["token"], other["logprob"]) for other in token.get("top_logprobs", ())),
        )
        for token in tokens
    )
    return ChatReply(
        text=text,
        tokens_in=last["usage"]["prompt_tokens"],
        tokens_out=last["usage"]["completion_tokens"],
        seconds=seconds,
        tokens=probabilities if request.top_logprobs else None,
        truncated=finish == "length",
    )


def _follows(schema: Mapping[str, Any], reply: ChatReply) -> bool:
    """Return whether the schema was enforced: llama.cpp silently drops one that it cannot turn into a grammar."""
    is_object = schema.get("type") == "object"
    if reply.truncated:
        return not is_object or reply.text.startswith("{")
    try:
        value = json.loads(reply.text)
        return not is_object or set(schema.get("required", ())) <= set(value)
    except (ValueError, TypeError):
        return False


def _refusal(said: str) -> ModelError:
    return ModelError(
        f"The embedded model refused the request: {one_line(said)}",
        remedy="Look at the roles of the messages and at the schema.",
    )


def check_is_gguf(path: Path) -> None:
    """Check the first bytes of weights, which takes no time; raise `ModelError` where they are not GGUF."""
    try:
        with path.open("rb") as file:
            begin = file.read(4)
    except OSError as error:
        remedy = "Check the path of the weights."
        raise ModelError(f"The weights {path} cannot be read: {error.strerror}.", remedy=remedy) from None
    if begin != b"GGUF":
        raise ModelError(f"{path} is not a GGUF file.", remedy="Give weights in llama.cpp's format (*.gguf).")
