"""What a client of OpenAI's chat API sends, and which of it a server of single questions can honour."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.web.http.problems import Problem

__all__ = ["ChatBody", "Understood", "understood"]

_TEXT = {"type": "text"}
_HONOURED = frozenset({"model", "messages", "stream", "stream_options"})
_INSTRUCTIONS = frozenset({"system", "developer"})
_FINE: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "response_format": (_TEXT,),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
}
"""Parameters that would change what comes back, with the values that change nothing. Any other value is refused."""


class ContentPart(BaseModel):
    """A part of a message; only text can be answered."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class ChatMessage(BaseModel):
    """One turn."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None


class StreamOptions(BaseModel):
    """How to stream."""

    model_config = ConfigDict(extra="allow")

    include_usage: bool | None = None


class ChatBody(BaseModel):
    """A chat completion request. Parameters that are not listed here are passed over and named in the reply."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "model": "beliefrag",
                    "messages": [{"role": "user", "content": "Who approves travel above the limit?"}],
                },
                {
                    "model": "beliefrag",
                    "messages": [{"role": "user", "content": "Who approves travel above the limit?"}],
                    "stream": True,
                    "stream_options": {"include_usage": True},
                },
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
    temperature: float | None = Field(default=None, description="passed over: model calls are made at temperature 0")
    max_tokens: int | None = Field(default=None, description="passed over: the server's budget decides")


class Understood(BaseModel):
    """What is left of a request."""

    question: str
    ignored: list[str]
    """What was passed over, by name: the reply says so."""


def understood(body: ChatBody, *, earlier_turns: Literal["refuse", "ignore"]) -> Understood:
    """The question of a request, and what of it was passed over.

    Raises:
        Problem: It asks for something that this server does not do.
    """
    asked = body.model_dump(exclude_unset=True)
    given = {name: value for name, value in asked.items() if value is not None}
    for name, fine in _FINE.items():
        if name in given and given[name] not in fine:
            raise Problem(
                400, "unsupported_parameter", f"{name} is not supported here.", remedy="Leave it out.", field=name
            )
    if body.stream_options is not None and not body.stream:
        raise Problem(
            400,
            "invalid_parameter",
            "stream_options is only for streams.",
            remedy="Leave it out.",
            field="stream_options",
        )
    ignored = [name for name in given if name not in _HONOURED and name not in _FINE]
    *before, last = body.messages
    if last.role != "user":
        raise Problem(
            400, "invalid_messages", f"The last message is by the {last.role}, not by the user.", field="messages"
        )
    earlier = [message for message in before if message.role not in _INSTRUCTIONS]
    if earlier and earlier_turns == "refuse":
        raise Problem(
            400,
            "conversation_not_supported",
            f"There are {len(earlier)} earlier turns, and this server answers single questions.",
            remedy="Send one question that can be understood alone.",
            field="messages",
        )
    ignored += [f"messages[{index}]" for index in range(len(before))]
    return Understood(question=_text(last, f"messages[{len(before)}].content"), ignored=ignored)


def _text(message: ChatMessage, where: str) -> str:
    if message.content is None:
        raise Problem(400, "invalid_messages", "The last message has no content.", field=where)
    if isinstance(message.content, str):
        return message.content
    for part in message.content:
        if part.type != "text" or part.text is None:
            raise Problem(
                400, "unsupported_content", "Only text can be answered.", remedy="Send text alone.", field=where
            )
    return "".join(part.text or "" for part in message.content)
