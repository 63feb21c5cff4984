"""OpenAI's `/v1/chat/completions` and `/v1/models`: its clients work without a change.

A server of single questions cannot meet every request. What would change the reply is refused by name; what is ignored
is named in the reply.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from beliefrag.explanation import describe_left_out
from beliefrag.record import AnswerText, Progress
from beliefrag.types import Turn
from beliefrag.web.http.episodes import EVENT_STREAM, HttpContext, ReplyForm, encode_event
from beliefrag.web.problems import AsciiJson, HttpProblem
from beliefrag.web.request_log import request_record
from beliefrag.web.request_settings import RequestSettings, assembly_for_request, check_question
from beliefrag.web.service import Waiting

_CHAT_PATH = "/v1/chat/completions"
_REPLY: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "As in OpenAI's API, with the reply of `/v1/ask` in `beliefrag`.",
        "content": {"application/json": {"schema": {"type": "object"}}, EVENT_STREAM: {}},
    }
}
_CHANGES_REPLY = {"n", "tools", "tool_choice", "functions", "function_call", "logprobs", "top_logprobs"}
_CHANGES_REPLY |= {"response_format", "modalities", "audio", "web_search_options"}
_HARMLESS: tuple[Any, ...] = (False, 0, [], {}, "none", "auto", ["text"], {"type": "text"})
"""The values with which the parameters above do not change the reply."""
_USED = {"model", "messages", "stream", "stream_options", "settings"}
_USAGE = {"prompt_tokens": "tokens_in", "completion_tokens": "tokens_out", "total_tokens": "tokens"}


class ChatMessage(BaseModel):
    """One message, of which text can be answered."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


class ChatBody(BaseModel):
    """A request. Further parameters are refused if they would change the reply, otherwise ignored and named in it."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: Annotated[
        list[ChatMessage],
        Field(min_length=1, description="The last one must be the user's; earlier ones are its context."),
    ]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    settings: Annotated[RequestSettings | None, Field(description="As in `/v1/ask`, which OpenAI's API lacks.")] = None


class _CompletionForm(ReplyForm):
    """A chat completion, whole or in chunks."""

    def __init__(self, request: Request, body: ChatBody, ignored: list[str]) -> None:
        self._request_id = request_record(request.scope).request_id
        self._head = {"id": f"chatcmpl-{self._request_id}", "created": int(time.time()), "model": body.model}
        self._with_usage = bool(body.stream_options and body.stream_options.get("include_usage"))
        self._ignored = ignored
        self._written = ""
        """The answer as far as the model has written it."""
        self._sent = ""

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": _answer_text(answer), "refusal": None}
        message["beliefrag"] = answer | {"ignored": self._ignored}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": _usage(answer)}

    def opening(self) -> Iterable[bytes]:
        return [self._chunk({"role": "assistant", "content": ""})]

    def event(self, event: Progress | Waiting) -> bytes:
        if not isinstance(event, AnswerText):
            return super().event(event)
        self._written = self._written[: event.at] + event.text
        # What was sent cannot be taken back: where the model begins again, the text waits until it is longer.
        more = self._written.removeprefix(self._sent) if self._written.startswith(self._sent) else ""
        self._sent += more
        return self._chunk({"content": more}) if more else b""

    def closing(self, answer: dict[str, Any]) -> Iterable[bytes]:
        text, sent = _answer_text(answer), self._sent.rstrip()
        if sent and not text.startswith(sent):
            text = f"\n\n{text}"
        if rest := text.removeprefix(sent):
            yield self._chunk({"content": rest})
        yield self._chunk({}, finish="stop", beliefrag=answer | {"ignored": self._ignored})
        if self._with_usage:
            yield self._chunk(None, usage=_usage(answer))
        yield encode_event("[DONE]")

    def failed(self, problem: HttpProblem) -> bytes:
        # OpenAI's clients raise what they find under "error".
        return encode_event(problem.body(_CHAT_PATH, self._request_id))

    def _chunk(self, delta: dict[str, Any] | None, *, finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [] if delta is None else [choice]}
        return encode_event(chunk | ({"usage": None} if self._with_usage else {}) | more)


def openai_routes(context: HttpContext) -> APIRouter:
    """Return the routes for one server."""
    router = APIRouter()
    service = context.service

    @router.post(_CHAT_PATH, summary="Answer the last user message, as OpenAI's API does", responses=_REPLY)
    async def chat(request: Request, body: Annotated[ChatBody, Body()]) -> Response:
        ignored = _check_parameters(context, body)
        question, history, skipped = _read_messages(body.messages)
        form = _CompletionForm(request, body, ignored + skipped)
        check_question(question, service, field="messages")
        assembly = await asyncio.to_thread(assembly_for_request, service, body.settings, request.scope)
        return await context.respond(request, question, assembly, form, stream=bool(body.stream), history=history)

    @router.get("/v1/models", summary="The model to ask for")
    async def models() -> Response:
        card = {"id": context.model_name, "object": "model", "created": 0, "owned_by": "beliefrag"}
        return AsciiJson({"object": "list", "data": [card]})

    return router


def _check_parameters(context: HttpContext, body: ChatBody) -> list[str]:
    """Return the parameters of a request that are ignored; refuse those that would change the reply."""
    if body.model != context.model_name:
        remedy = f"Ask for {context.model_name!r}."
        raise HttpProblem(404, "model_not_found", "This model does not exist.", remedy=remedy, field="model")
    given = {name: value for name, value in body.model_dump(exclude_unset=True).items() if value is not None}
    for name, value in given.items():
        if name in _CHANGES_REPLY and value not in _HARMLESS and (name, value) != ("n", 1):
            raise HttpProblem(
                400, "unsupported_parameter", f"{name} is not supported here.", field=name, remedy="Leave it out."
            )
    if "stream_options" in given and not body.stream:
        raise HttpProblem(400, "invalid_parameter", "stream_options is only for streams.", field="stream_options")
    return [name for name in given if name not in _USED | _CHANGES_REPLY]


def _read_messages(messages: Sequence[ChatMessage]) -> tuple[str, list[Turn], list[str]]:
    """Return the text of the last message, the turns before it, and the places of messages that are ignored."""
    *before, last = messages
    if last.role != "user":
        raise HttpProblem(
            400, "invalid_messages", f"The last message is by the {last.role}, not by the user.", field="messages"
        )
    turns: list[Turn] = []
    ignored = []
    for index, message in enumerate(before):
        if message.role == "user":
            turns.append(Turn(_read_text(message, index)))
        elif message.role == "assistant" and message.content and turns:
            turns[-1] = replace(turns[-1], answer=_read_text(message, index))
        else:
            ignored.append(f"messages[{index}]")
    return _read_text(last, len(before)), turns, ignored


def _read_text(message: ChatMessage, index: int) -> str:
    parts = [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
    texts = [part.get("text") for part in parts or () if part.get("type") == "text"]
    if parts is None or len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        field = f"messages[{index}].content"
        raise HttpProblem(400, "unsupported_content", "Only text can be answered.", field=field)
    return "".join(map(str, texts))


def _answer_text(answer: dict[str, Any]) -> str:
    """Return the content of the message. A client that does not know outcomes must still see that it got no answer."""
    if answer["answer"] is not None:
        note = describe_left_out(answer["left_out"])
        return f"{answer['answer']}\n\n(Left out: {note}.)" if note else str(answer["answer"])
    if answer["asks"]:
        return str(answer["asks"])
    return f"I cannot answer this from the documents: {answer['reason']}."


def _usage(answer: dict[str, Any]) -> dict[str, int]:
    return {name: answer["usage"][ours] for name, ours in _USAGE.items()}
