"""An answer in the form of OpenAI's chat API, with what that form has no place for in the field `beliefrag`."""

from __future__ import annotations

import time
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.web.http.replies import Answer, Source, Spent

__all__ = ["ChatCompletion", "Completion", "ModelCard", "ModelList", "said"]

_USAGE: dict[str, Any] = {"prompt_tokens": 401, "completion_tokens": 11, "total_tokens": 412}
_DETAILS: dict[str, Any] = {
    "outcome": "answered",
    "answerability": 0.84,
    "reason": "the question can be answered now (answerability 0.84 is at least 0.50; conflict 0.04 is below 0.50)",
    "sources": [
        {
            "id": "travel.md#1",
            "title": "Travel",
            "excerpt": "Travel above the limit is approved by the head of finance.",
            "source": "travel.md",
        }
    ],
    "usage": {
        "tokens": 412,
        "tokens_in": 401,
        "tokens_out": 11,
        "calls": 2,
        "cached_calls": 0,
        "searches": 1,
        "seconds": 1.3,
    },
    "calibration": "qwen2.5-coder-1.5b",
    "guarantee": None,
    "ignored": ["temperature"],
}


class Details(BaseModel):
    """What BeliefRAG knows about its answer."""

    outcome: Literal["answered", "stopped", "abstained"]
    answerability: float | None
    reason: str
    sources: list[Source]
    usage: Spent
    calibration: str
    guarantee: str | None
    ignored: list[str] = Field(description="what of the request was passed over")


class _Message(BaseModel):
    role: Literal["assistant"]
    content: str
    refusal: None = None
    beliefrag: Details


class _Choice(BaseModel):
    index: int
    message: _Message
    logprobs: None = None
    finish_reason: Literal["stop"]


class _Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(BaseModel):
    """A chat completion; `beliefrag` on the message holds outcome, answerability and sources."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "chatcmpl-5f1c6c1e9f5a4f0e8f3f0c2d7a9b1e44",
                    "object": "chat.completion",
                    "created": 1767225600,
                    "model": "beliefrag",
                    "choices": [
                        {
                            "index": 0,
                            "message": {
                                "role": "assistant",
                                "content": "the head of finance",
                                "refusal": None,
                                "beliefrag": _DETAILS,
                            },
                            "logprobs": None,
                            "finish_reason": "stop",
                        }
                    ],
                    "usage": _USAGE,
                }
            ]
        }
    )

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[_Choice]
    usage: _Usage


class ModelCard(BaseModel):
    """A model that can be asked for."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "beliefrag", "object": "model", "created": 0, "owned_by": "beliefrag"}]}
    )

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "beliefrag"


class ModelList(BaseModel):
    """All of them: one."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class Completion:
    """Builds the pieces of one completion, whole or in chunks.

    Args:
        request_id: Names it.
        model: The model that was asked for.
        ignored: What of the request was passed over.
    """

    def __init__(self, request_id: str, model: str, ignored: list[str]) -> None:
        self.request_id = request_id
        self._ignored = ignored
        self._head = {"id": f"chatcmpl-{request_id}", "created": int(time.time()), "model": model}

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The completion in one piece."""
        message = {
            "role": "assistant",
            "content": said(answer),
            "refusal": None,
            "beliefrag": self._details(answer),
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": _usage(answer)}

    def chunk(self, delta: dict[str, Any], *, finish: str | None = None, **more: Any) -> dict[str, Any]:
        """One chunk of a stream."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice], **more}

    def last_chunk(self, answer: Answer) -> dict[str, Any]:
        """The chunk that ends the message."""
        return self.chunk({}, finish="stop", beliefrag=self._details(answer))

    def usage_chunk(self, answer: Answer) -> dict[str, Any]:
        """The chunk after the last, for who asked for it."""
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": _usage(answer)}

    def _details(self, answer: Answer) -> dict[str, Any]:
        return {**answer.model_dump(include=set(Details.model_fields)), "ignored": self._ignored}


def said(answer: Answer) -> str:
    """The content of the message. A client that knows nothing of outcomes must still see that it got no answer."""
    if answer.answer is not None:
        return answer.answer
    return f"I cannot answer this from the documents: {answer.reason}."


def _usage(answer: Answer) -> dict[str, int]:
    spent = answer.usage
    return {"prompt_tokens": spent.tokens_in, "completion_tokens": spent.tokens_out, "total_tokens": spent.tokens}
