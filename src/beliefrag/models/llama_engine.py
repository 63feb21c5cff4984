"""llama.cpp inside this process, behind two calls: load, and generate.

Everything that is particular to the `xllamacpp` binding is in this file. It blocks; `Embedded` keeps it off the event
loop. The package is imported at the first load, because it brings 40 MB of native code that most commands never need.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from beliefrag.errors import ModelError
from beliefrag.models.failures import one_line
from beliefrag.models.llama_reply import Generation, check_followed, join, refused
from beliefrag.models.protocol import Message
from beliefrag.models.stop_sequences import spelling

__all__ = ["Engine", "GenerationStoppedError"]

_BATCH = 128
"""Tokens of a prompt that are read between two looks at whether to stop. On a CPU larger batches are no faster."""

_COMPACT_JSON = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "lenient": True,
    "coerce_one_of": True,
}
"""How the grammar writes JSON. Free white space lets a small model write newlines for ever. Without the last two, one
keyword that the grammar does not know (`format`, `uniqueItems`, ...) would silently switch the whole schema off."""


class GenerationStoppedError(Exception):
    """The generation was broken off from outside; the argument is the number of pieces that had come."""


class Engine:
    """One model in memory.

    Args:
        path: The weights.
        context: Tokens of a prompt and its reply together.
        threads: How many threads compute.
        control_tokens: Texts that the tokenizer takes for marks of the chat template.
        prompt_memory_mib: Memory for the state of earlier prompts, whose beginnings then need not be read again.

    Raises:
        ModelError: The weights cannot be loaded.
    """

    def __init__(
        self, path: Path, *, context: int, threads: int, prompt_memory_mib: int, control_tokens: Sequence[str] = ()
    ) -> None:
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
        parameters.n_ctx = context
        parameters.n_parallel = 1
        parameters.n_batch = parameters.n_ubatch = _BATCH
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        parameters.cache_ram_mib = prompt_memory_mib
        parameters.ctx_shift = False
        parameters.enable_reasoning = 0
        parameters.warmup = False
        parameters.verbosity = 0
        # The binding opens a port on the loopback interface and cannot be told not to. Nobody is told this key.
        parameters.api_keys = [secrets.token_urlsafe(32)]
        parameters.n_threads_http = 1
        parameters.ui = False
        parameters.endpoint_slots = False
        self._marks = _pattern(control_tokens)
        self._to_grammar: Callable[[Mapping[str, Any]], str] = xllamacpp.json_schema_to_grammar
        try:
            self._server = xllamacpp.Server(parameters)
        except (RuntimeError, ValueError, MemoryError):
            raise ModelError(
                f"The weights {path} cannot be loaded: damaged, cut short, too large for the memory, or of a kind "
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
        broken_off: Callable[[], bool],
    ) -> Generation:
        """Generates one reply at temperature 0.

        llama.cpp cannot tell a mark of the chat template ("<|im_end|>") from the same text in a message, so such text
        is broken up with a space first.

        Args:
            messages: The conversation.
            max_tokens: The longest reply.
            schema: JSON schema that the reply is forced to follow.
            top_logprobs: How many alternatives to report for each token; 0 for none.
            stop: Texts that end the reply where the first of them begins. llama.cpp holds back what may become one: a
                reply that ends in the beginning of a stop text comes without it.
            reuse: Whether what is in memory of earlier prompts may be used.
            broken_off: Looked at after every batch of the prompt and every token.

        Raises:
            GenerationStoppedError: `broken_off` said so.
            PromptTooLongError: The prompt does not fit.
            ModelError: The request was refused.
        """
        body: dict[str, Any] = {
            "messages": [
                {"role": message.role, "content": _plain(message.content, self._marks)} for message in messages
            ],
            "temperature": 0,
            "max_tokens": max_tokens,
            "cache_prompt": reuse,
            # Streamed within the process only: the one way to be asked whether to go on.
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
            return broken_off()

        try:
            if schema is not None:
                # Not `response_format`: that also allows a code fence, which is cut from the text but not from the
                # tokens, and then probabilities and text no longer match.
                body["grammar"] = self._to_grammar({**schema, "x-guidance": _COMPACT_JSON})
            self._server.handle_chat_completions(body, take)
        except (RuntimeError, ValueError, TypeError) as error:
            raise refused(str(error)) from None
        if broken_off():
            raise GenerationStoppedError(len(chunks))
        generation = join(chunks)
        if stop:
            # The tokens of the stop text are reported, and its text is not.
            told = generation.tokens[: spelling([token.token for token in generation.tokens], len(generation.text))]
            generation = replace(generation, tokens=told)
        if schema is not None:
            check_followed(schema, generation)
        return generation


def _pattern(control_tokens: Sequence[str]) -> re.Pattern[str] | None:
    # Longest first, so that a mark that begins like another is found whole.
    texts = sorted(control_tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, texts))) if texts else None


def _plain(text: str, marks: re.Pattern[str] | None) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ModelError(
            "The request holds text that is not valid Unicode.", remedy="Read the document again as UTF-8."
        ) from None
    return marks.sub(lambda mark: f"{mark[0][0]} {mark[0][1:]}", text) if marks else text
