"""OpenAI's chat API: which requests a server of single questions can meet, and the replies in that API's form."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.web.answers import EXAMPLE_ANSWER, AnswerBody, CitationBody, SourceBody, UsageBody
from beliefrag.web.problems import HttpProblem

__all__ = [
    "AnswerDetails",
    "ChatBody",
    "ChatCompletion",
    "ChatMessage",
    "ChatQuestion",
    "CompletionBuilder",
    "ModelCard",
    "ModelList",
    "answer_details",
    "answer_text",
    "find_ignored",
    "join_text",
    "last_question",
    "read_chat_question",
]

_USED = frozenset({"model", "messages", "stream", "stream_options"})
_INSTRUCTION_ROLES = frozenset({"system", "developer"})
_HARMLESS_VALUES: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
}
"""Parameters that would change the reply, with the values that change nothing. Any other value is refused."""
_EXAMPLE_REQUEST: dict[str, Any] = {
    "model": "beliefrag",
    "messages": [{"role": "user", "content": "Who approves travel above the limit?"}],
}


class ContentPart(BaseModel):
    """A part of a message; only text can be answered."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class ChatMessage(BaseModel):
    """One message of the conversation."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(extra="allow")

    include_usage: bool | None = None


class ChatBody(BaseModel):
    """A chat completion request. Parameters that are not listed here are ignored and named in the reply."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                _EXAMPLE_REQUEST,
                {**_EXAMPLE_REQUEST, "stream": True, "stream_options": {"include_usage": True}},
            ]
        },
    )

    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1, description="The last one, by the user, is answered.")]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1)] | None = Field(default=None, description="1; more is refused")
    tools: list[Any] | None = Field(default=None, description="refused unless empty")
    logprobs: bool | None = Field(default=None, description="true is refused")
    response_format: dict[str, Any] | None = Field(default=None, description='{"type": "text"}; others are refused')
    temperature: float | None = Field(default=None, description="ignored: model calls are made at temperature 0")
    max_tokens: int | None = Field(default=None, description="ignored: the server's budget decides")


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """The question of a request."""

    text: str
    ignored: tuple[str, ...]
    """The parts of the request that were ignored, by name; the reply lists them."""


def read_chat_question(body: ChatBody, *, earlier_turns: Literal["refuse", "ignore"]) -> ChatQuestion:
    """Read the question of a request, and which of its parts are ignored.

    Raises:
        HttpProblem: It asks for something that this server does not do.
    """
    ignored = find_ignored(body, used=_USED, harmless=_HARMLESS_VALUES)
    if body.stream_options is not None and not body.stream:
        words, name = "stream_options is only for streams.", "stream_options"
        raise HttpProblem(400, "invalid_parameter", words, remedy="Leave it out.", field=name)
    last, skipped = last_question(body.messages, "messages", earlier_turns=earlier_turns)
    text = join_text(last, f"messages[{len(body.messages) - 1}].content")
    return ChatQuestion(text, tuple(ignored + skipped))


def find_ignored(body: BaseModel, *, used: Container[str], harmless: Mapping[str, tuple[Any, ...]]) -> list[str]:
    """Return the parameters of a request that are ignored, by name.

    Args:
        body: The request.
        used: The parameters that are used.
        harmless: Parameters that would change the reply, with the values that change nothing.

    Raises:
        HttpProblem: One of the latter has another value.
    """
    given = {name: value for name, value in body.model_dump(exclude_unset=True).items() if value is not None}
    for name, values in harmless.items():
        if name in given and given[name] not in values:
            words = f"{name} is not supported here."
            raise HttpProblem(400, "unsupported_parameter", words, remedy="Leave it out.", field=name)
    return [name for name in given if name not in used and name not in harmless]


def last_question(
    messages: Sequence[ChatMessage], field: str, *, earlier_turns: Literal["refuse", "ignore"]
) -> tuple[ChatMessage, list[str]]:
    """Return the last message, which must be by the user, and the places of those before it, which are ignored.

    Raises:
        HttpProblem: It is by another role, or there are earlier turns and they are refused.
    """
    *before, last = messages
    if last.role != "user":
        words = f"The last message is by the {last.role}, not by the user."
        raise HttpProblem(400, "invalid_messages", words, field=field)
    earlier = [message for message in before if message.role not in _INSTRUCTION_ROLES]
    if earlier and earlier_turns == "refuse":
        raise HttpProblem(
            400,
            "conversation_not_supported",
            f"There are {len(earlier)} earlier turns, and this server answers single questions.",
            remedy="Send one question that can be understood alone.",
            field=field,
        )
    return last, [f"{field}[{index}]" for index in range(len(before))]


def join_text(message: ChatMessage, field: str, *, kinds: Container[str] = ("text",)) -> str:
    """Return the text of a message.

    Raises:
        HttpProblem: It has no content, or content that is not text.
    """
    if message.content is None:
        raise HttpProblem(400, "invalid_messages", "The last message has no content.", field=field)
    if isinstance(message.content, str):
        return message.content
    for part in message.content:
        if part.type not in kinds or part.text is None:
            words = "Only text can be answered."
            raise HttpProblem(400, "unsupported_content", words, remedy="Send only text.", field=field)
    return "".join(part.text or "" for part in message.content)


class AnswerDetails(BaseModel):
    """What BeliefRAG knows about its answer."""

    outcome: Literal["answered", "stopped", "abstained"]
    answerability: float | None
    reason: str
    best_guess: str | None
    citations: list[CitationBody]
    nearest: list[CitationBody]
    sources: list[SourceBody]
    usage: UsageBody
    calibration: str
    guarantee: str | None
    ignored: list[str] = Field(description="which parts of the request were ignored")


class _Message(BaseModel):
    role: Literal["assistant"]
    content: str
    refusal: None = None
    beliefrag: AnswerDetails


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
    """A chat completion; `beliefrag` on the message holds outcome, answerability and citations."""

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
    """The list of models, which has one entry."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class CompletionBuilder:
    """Builds one completion, whole or in chunks.

    Args:
        request_id: Identifies it.
        model: The model that was asked for.
        ignored: The parts of the request that were ignored.
        created: When it was made, in seconds since 1970; by default now.
    """

    def __init__(self, request_id: str, model: str, ignored: tuple[str, ...], *, created: int | None = None) -> None:
        self.request_id = request_id
        self._ignored = ignored
        created = int(time.time()) if created is None else created
        self._head = {"id": f"chatcmpl-{request_id}", "created": created, "model": model}

    def completion(self, answer: AnswerBody) -> dict[str, Any]:
        """Return the completion in one piece."""
        message = {
            "role": "assistant",
            "content": answer_text(answer),
            "refusal": None,
            "beliefrag": answer_details(answer, self._ignored),
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": _token_usage(answer)}

    def chunk(self, delta: dict[str, Any], *, finish: str | None = None, **more: Any) -> dict[str, Any]:
        """Return one chunk of a stream."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice], **more}

    def last_chunk(self, answer: AnswerBody) -> dict[str, Any]:
        """Return the chunk that ends the message."""
        return self.chunk({}, finish="stop", beliefrag=answer_details(answer, self._ignored))

    def usage_chunk(self, answer: AnswerBody) -> dict[str, Any]:
        """Return the chunk with the usage, for clients that asked for it."""
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": _token_usage(answer)}


def answer_details(answer: AnswerBody, ignored: Sequence[str]) -> dict[str, Any]:
    """Return the field `beliefrag` of a reply."""
    return {**answer.model_dump(include=set(AnswerDetails.model_fields)), "ignored": list(ignored)}


def answer_text(answer: AnswerBody) -> str:
    """Return the content of the message. A client that does not know outcomes must still see that it got no answer."""
    if answer.answer is not None:
        return answer.answer
    return f"I cannot answer this from the documents: {answer.reason}."


def _token_usage(answer: AnswerBody) -> dict[str, int]:
    usage = answer.usage
    return {"prompt_tokens": usage.tokens_in, "completion_tokens": usage.tokens_out, "total_tokens": usage.tokens}


_EXAMPLE = CompletionBuilder(EXAMPLE_ANSWER["id"], "beliefrag", ("temperature",), created=1767225600)
ChatCompletion.model_config["json_schema_extra"] = {
    "examples": [_EXAMPLE.completion(AnswerBody.model_validate(EXAMPLE_ANSWER))]
}
