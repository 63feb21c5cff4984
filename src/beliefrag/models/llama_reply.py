"""Puts what llama.cpp streams together into one generation, and checks that it is what was asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beliefrag.errors import ModelError, ReplyError
from beliefrag.models.failures import one_line
from beliefrag.models.protocol import TokenProbability

__all__ = ["Generation", "PromptTooLongError", "check_followed", "join", "refused"]


class PromptTooLongError(Exception):
    """The prompt does not fit the context. What to do about it is for somebody to say who knows the settings."""

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__(tokens, context)
        self.tokens = tokens
        self.context = context


@dataclass(frozen=True, slots=True)
class Generation:
    """What one call generated, and what the engine measured."""

    text: str
    finish: str
    """`stop`, or `length` when the tokens or the context ran out."""
    tokens: tuple[TokenProbability, ...]
    tokens_in: int
    tokens_out: int
    tokens_reused: int
    """Tokens of the prompt that were still in memory from an earlier call."""
    seconds_reading: float
    seconds_writing: float


def join(chunks: Sequence[Mapping[str, Any]]) -> Generation:
    """Puts the chunks of a streamed reply together.

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
            raise refused(str(error.get("message", error)))
    choices = [choice for chunk in chunks for choice in chunk.get("choices", ())]
    last = chunks[-1] if chunks else {}
    if "usage" not in last or "timings" not in last:
        raise ReplyError("The embedded model broke off its reply.", remedy="Ask again.")
    usage, timings = last["usage"], last["timings"]
    return Generation(
        text="".join(choice["delta"].get("content") or "" for choice in choices),
        finish=next((choice["finish_reason"] for choice in reversed(choices) if choice["finish_reason"]), ""),
        tokens=tuple(
            _probability(token) for choice in choices for token in (choice.get("logprobs") or {}).get("content") or ()
        ),
        tokens_in=usage["prompt_tokens"],
        tokens_out=usage["completion_tokens"],
        tokens_reused=timings["cache_n"],
        seconds_reading=timings["prompt_ms"] / 1000,
        seconds_writing=timings["predicted_ms"] / 1000,
    )


def check_followed(schema: Mapping[str, Any], generation: Generation) -> None:
    """Returns when the reply looks like one that the schema was enforced on.

    A schema that llama.cpp cannot turn into a grammar is dropped without a word, and the model then writes freely.

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
            "The embedded model cannot be held to this JSON schema.", remedy="Check the schema, or make it simpler."
        )


def _probability(token: Mapping[str, Any]) -> TokenProbability:
    return TokenProbability(
        token=token["token"],
        logprob=token["logprob"],
        top=tuple((other["token"], other["logprob"]) for other in token.get("top_logprobs", ())),
    )


def refused(said: str) -> ModelError:
    """The error for a request that llama.cpp does not take."""
    return ModelError(
        f"The embedded model refused the request: {one_line(said)}",
        remedy="Look at the roles of the messages and at the schema.",
    )
