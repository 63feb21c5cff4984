"""llama.cpp inside this process: reads the head of a weights file, loads the weights, and generates replies.

Everything that is particular to the GGUF format and to the `xllamacpp` binding is in this file. It blocks; `Embedded`
keeps it off the event loop. The package is imported when the first model is loaded, because it brings 40 MB of native
code that most commands never need. A weights file may come from anywhere: every length in its head is checked against
the file's size before it is used.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from beliefrag.errors import ModelError, ReplyError
from beliefrag.models.failures import one_line
from beliefrag.models.protocol import Message, TokenProbability, count_pieces

__all__ = ["Generation", "GenerationStoppedError", "LlamaEngine", "PromptTooLongError", "join_chunks", "read_head"]

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

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_CONTROL, _USER_DEFINED = 3, 4
_TOKENS, _TOKEN_TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"


class GenerationStoppedError(Exception):
    """The caller stopped the generation; the argument is the number of pieces that had come."""


class PromptTooLongError(Exception):
    """The prompt does not fit the context. The caller, who knows the settings, says what to do about it."""

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

    Args:
        path: The weights.
        head: The head of that file.
        context: Tokens of a prompt and its reply together. A model that was trained on fewer gets fewer.
        threads: How many threads compute.
        prompt_memory_mib: Memory for the state of earlier prompts, whose beginnings then need not be read again.

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
        self._marks = _marks_pattern(head.control_tokens)
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
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        schema: Mapping[str, Any] | None,
        top_logprobs: int,
        stop: Sequence[str],
        reuse: bool,
        is_stopped: Callable[[], bool],
    ) -> Generation:
        """Generates one reply at temperature 0.

        llama.cpp cannot distinguish a mark of the chat template ("<|im_end|>") from the same text in a message, so a
        space is put into such text first.

        Args:
            messages: The conversation.
            max_tokens: The longest reply.
            schema: JSON schema that the reply is forced to follow.
            top_logprobs: How many alternatives to report for each token; 0 for none.
            stop: Texts that end the reply where the first of them begins. A reply that ends in the beginning of a stop
                text comes without that beginning.
            reuse: Whether the memory of earlier prompts may be used.
            is_stopped: Called after every batch of the prompt and every token; True ends the generation.

        Raises:
            GenerationStoppedError: `is_stopped` returned True.
            PromptTooLongError: The prompt does not fit.
            ModelError: The request was refused.
        """
        body: dict[str, Any] = {
            "messages": [
                {"role": message.role, "content": _without_marks(message.content, self._marks)} for message in messages
            ],
            "temperature": 0,
            "max_tokens": max_tokens,
            "cache_prompt": reuse,
            # Streamed within the process only: this is the one way to stop a generation.
            "stream": True,
            "return_progress": True,
            "stream_options": {"include_usage": True},
        }
        if top_logprobs:
            body |= {"logprobs": True, "top_logprobs": top_logprobs}
        if stop:
            body["stop"] = list(stop)
        chunks: list[dict[str, Any]] = []

        def take(chunk: dict[str, Any]) -> bool:
            chunks.append(chunk)
            return is_stopped()

        try:
            if schema is not None:
                # Not `response_format`: that also allows a code fence, which is cut from the text but not from the
                # tokens, and then probabilities and text no longer match.
                body["grammar"] = self._to_grammar({**schema, "x-guidance": _COMPACT_JSON})
            self._server.handle_chat_completions(body, take)
        except (RuntimeError, ValueError, TypeError) as error:
            raise _refusal(str(error)) from None
        if is_stopped():
            raise GenerationStoppedError(len(chunks))
        generation = join_chunks(chunks)
        if stop:
            # The tokens of the stop text are reported, and its text is not.
            kept = count_pieces([token.token for token in generation.tokens], len(generation.text))
            generation = replace(generation, tokens=generation.tokens[:kept])
        if schema is not None:
            _check_schema(schema, generation)
        return generation


def _marks_pattern(control_tokens: Sequence[str]) -> re.Pattern[str] | None:
    # Longest first, so that a mark that begins with another one is found whole.
    texts = sorted(control_tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, texts))) if texts else None


def _without_marks(text: str, marks: re.Pattern[str] | None) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ModelError(
            "The request holds text that is not valid Unicode.", remedy="Read the document again as UTF-8."
        ) from None
    return marks.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}", text) if marks else text


def join_chunks(chunks: Sequence[Mapping[str, Any]]) -> Generation:
    """Joins the chunks of a streamed reply.

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
    return Generation(
        text="".join(choice["delta"].get("content") or "" for choice in choices),
        finish=next((choice["finish_reason"] for choice in reversed(choices) if choice["finish_reason"]), ""),
        tokens=tuple(
            _probability(token) for choice in choices for token in (choice.get("logprobs") or {}).get("content") or ()
        ),
        tokens_in=last["usage"]["prompt_tokens"],
        tokens_out=last["usage"]["completion_tokens"],
        tokens_reused=last["timings"]["cache_n"],
    )


def _check_schema(schema: Mapping[str, Any], generation: Generation) -> None:
    """Checks that the schema was enforced: llama.cpp drops a schema that it cannot turn into a grammar, silently.

    Raises:
        ModelError: The schema was dropped.
    """
    is_object = schema.get("type") == "object"
    if generation.finish == "length":
        follows = not is_object or generation.text.startswith("{")
    else:
        try:
            value = json.loads(generation.text)
            follows = not is_object or set(schema.get("required", ())) <= set(value)
        except (ValueError, TypeError):
            follows = False
    if not follows:
        raise ModelError(
            "The embedded model cannot follow this JSON schema.", remedy="Check the schema, or make it simpler."
        )


def _probability(token: Mapping[str, Any]) -> TokenProbability:
    return TokenProbability(
        token=token["token"],
        logprob=token["logprob"],
        top=tuple((other["token"], other["logprob"]) for other in token.get("top_logprobs", ())),
    )


def _refusal(said: str) -> ModelError:
    return ModelError(
        f"The embedded model refused the request: {one_line(said)}",
        remedy="Look at the roles of the messages and at the schema.",
    )


@dataclass(frozen=True, slots=True)
class GgufHead:
    """What the head of a GGUF file says about the model."""

    architecture: str
    context: int | None
    """How many tokens the model was trained to read; None where the file does not say."""
    control_tokens: tuple[str, ...]
    """Texts that the tokenizer reads as marks of the chat template, such as the end of a turn."""


def read_head(path: Path) -> GgufHead:
    """Reads the head of a GGUF file.

    Raises:
        ModelError: The file is missing, is not GGUF, or ends too early.
    """
    try:
        with path.open("rb") as file:
            return _HeadReader(file, path).read()
    except FileNotFoundError:
        raise ModelError(f"There is no file {path}.", remedy="Check the path of the weights.") from None
    except OSError as error:
        raise ModelError(f"The weights {path} cannot be read: {error.strerror}.") from None


def check_is_gguf(path: Path) -> None:
    """Checks the first bytes of weights, which takes no time.

    Raises:
        ModelError: The file cannot be read, or is not GGUF.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(len(_MAGIC))
    except OSError as error:
        raise ModelError(f"The weights {path} cannot be read: {error.strerror}.") from None
    if begin != _MAGIC:
        raise _not_gguf(path)


def _not_gguf(path: Path) -> ModelError:
    return ModelError(f"{path} is not a GGUF file.", remedy="Give weights in llama.cpp's format (*.gguf).")


class _HeadReader:
    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._left = os.fstat(file.fileno()).st_size

    def read(self) -> GgufHead:
        if self._left < len(_MAGIC) or self._take(len(_MAGIC)) != _MAGIC:
            raise _not_gguf(self._path)
        version = self._number("I")
        if version not in _VERSIONS:
            raise ModelError(
                f"{self._path} has GGUF version {version}, and only 2 and 3 can be read.",
                remedy="Get a newer conversion of the model.",
            )
        self._number("Q")
        values = self._values(self._number("Q"))
        architecture = str(values.get("general.architecture", ""))
        context = values.get(f"{architecture}.context_length")
        return GgufHead(
            architecture=architecture,
            context=context if isinstance(context, int) and context > 0 else None,
            control_tokens=_control_tokens(values.get(_TOKENS, ()), values.get(_TOKEN_TYPES, ())),
        )

    def _values(self, count: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for _ in range(count):
            key = self._string()
            values[key] = self._value(self._number("I"))
            # What follows the vocabulary is long (the merges) and not needed here.
            if _TOKENS in values and _TOKEN_TYPES in values:
                break
        return values

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        raise self._damage()

    def _array(self) -> Any:
        kind, count = self._number("I"), self._number("Q")
        if kind in _NUMBERS:
            code = _NUMBERS[kind]
            return struct.unpack(f"<{count}{code}", self._take(count * struct.calcsize(code)))
        if (count and kind != _STRING) or count > self._left:
            raise self._damage()
        return [self._string() for _ in range(count)]

    def _string(self) -> str:
        return self._take(self._number("Q")).decode("utf-8", "replace")

    def _number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._take(struct.calcsize(code)))[0]

    def _take(self, count: int) -> bytes:
        if count > self._left:
            raise self._damage()
        self._left -= count
        return self._file.read(count)

    def _damage(self) -> ModelError:
        return ModelError(
            f"{self._path} is damaged or incomplete: its head cannot be read.", remedy="Get the file again."
        )


def _control_tokens(tokens: Any, types: Any) -> tuple[str, ...]:
    if not isinstance(tokens, list) or not isinstance(types, tuple):
        return ()
    return tuple(text for text, kind in zip(tokens, types, strict=False) if _is_control(text, kind))


def _is_control(text: str, kind: int) -> bool:
    # llama.cpp turns some user-defined tokens into control tokens by their text; all of these look like markup.
    markup = text[:1] + text[-1:] in ("<>", "[]")
    return len(text) > 2 and (kind == _CONTROL or (kind == _USER_DEFINED and markup))
