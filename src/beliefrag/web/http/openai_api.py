"""OpenAI's `/v1/chat/completions`, `/v1/responses` and `/v1/models`: its clients work without a change.

A server of single questions cannot meet every request. What would change the reply is refused by name; what is ignored
is named in the reply.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from beliefrag.web.http.episodes import EVENT_STREAM, HttpContext, ReplyForm, encode_event
from beliefrag.web.problems import AsciiJson, HttpProblem
from beliefrag.web.request_log import request_record
from beliefrag.web.request_settings import check_question

_STREAM: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}, EVENT_STREAM: {}}
_CHAT_PATH = "/v1/chat/completions"
_CHANGES_REPLY: tuple[str, ...] = (
    "n",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "logprobs",
    "top_logprobs",
    "prompt",
)
_CHANGES_REPLY += ("response_format", "modalities", "audio", "web_search_options", "text", "background")
"""Parameters that would change the reply."""
_HARMLESS: tuple[Any, ...] = (
    False,
    0,
    [],
    {},
    "none",
    "auto",
    ["text"],
    {"type": "text"},
    {"format": {"type": "text"}},
)
"""The values with which they do not."""
_TOKENS = ("tokens_in", "tokens_out", "tokens")
_USED = ("model", "messages", "input", "stream", "stream_options")


class ChatMessage(BaseModel):
    """One message, of which text can be answered."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


class OpenAIBody(BaseModel):
    """A request. Further parameters are refused if they would change the reply, otherwise ignored and named in it."""

    model_config = ConfigDict(extra="allow")

    model: str
    stream: bool | None = None


class ChatBody(OpenAIBody):
    """A chat completion request."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, description="The last one, by the user, is answered.")]
    stream_options: dict[str, Any] | None = None


class ResponsesBody(OpenAIBody):
    """A request of the Responses API."""

    input: str | Annotated[list[ChatMessage], Field(min_length=1)] = Field(
        description="A question, or messages of which the last one, by the user, is answered."
    )


class _OpenAIForm(ReplyForm):
    def __init__(self, request: Request, body: OpenAIBody, ignored: list[str]) -> None:
        self._request_id = request_record(request.scope).request_id
        self._model = body.model
        self._created = int(time.time())
        self._ignored = ignored

    def _details(self, answer: dict[str, Any]) -> dict[str, Any]:
        return answer | {"ignored": self._ignored}


class _CompletionForm(_OpenAIForm):
    """A chat completion, whole or in chunks."""

    def __init__(self, request: Request, body: ChatBody, ignored: list[str]) -> None:
        super().__init__(request, body, ignored)
        self._head = {"id": f"chatcmpl-{self._request_id}", "created": self._created, "model": self._model}
        self._with_usage = bool(body.stream_options and body.stream_options.get("include_usage"))

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": _answer_text(answer), "refusal": None}
        message["beliefrag"] = self._details(answer)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage(answer)}

    def opening(self) -> Iterable[bytes]:
        return [self._chunk({"role": "assistant", "content": ""})]

    def closing(self, answer: dict[str, Any]) -> Iterable[bytes]:
        yield self._chunk({"content": _answer_text(answer)})
        yield self._chunk({}, finish="stop", beliefrag=self._details(answer))
        if self._with_usage:
            yield self._chunk(None, usage=self._usage(answer))
        yield encode_event("[DONE]")

    def failed(self, problem: HttpProblem) -> bytes:
        # OpenAI's clients raise what they find under "error".
        return encode_event(problem.body(_CHAT_PATH, self._request_id))

    def _chunk(self, delta: dict[str, Any] | None, *, finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [] if delta is None else [choice]}
        return encode_event(chunk | ({"usage": None} if self._with_usage else {}) | more)

    def _usage(self, answer: dict[str, Any]) -> dict[str, int]:
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        return {name: answer["usage"][ours] for name, ours in zip(names, _TOKENS, strict=True)}


class _ResponseForm(_OpenAIForm):
    """A response of the Responses API, whole or as its events."""

    _sent = 0

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        names = ("input_tokens", "output_tokens", "total_tokens")
        usage = {name: answer["usage"][ours] for name, ours in zip(names, _TOKENS, strict=True)}
        usage["input_tokens_details"] = {"cached_tokens": 0, "cache_write_tokens": 0}
        usage["output_tokens_details"] = {"reasoning_tokens": 0}
        return self._response(
            "completed",
            output=[self._message(answer)],
            completed_at=max(self._created, int(time.time())),
            usage=usage,
            beliefrag=self._details(answer),
        )

    def opening(self) -> Iterable[bytes]:
        yield self._event("created", response=self._response("in_progress"))
        yield self._event("in_progress", response=self._response("in_progress"))
        yield self._item_event("output_item.added", item=self._item("in_progress", []))
        yield self._part_event("content_part.added", part=_text_part("", []))

    def closing(self, answer: dict[str, Any]) -> Iterable[bytes]:
        message = self._message(answer)
        (part,) = message["content"]
        yield self._part_event("output_text.delta", delta=part["text"], logprobs=[])
        yield self._part_event("output_text.done", text=part["text"], logprobs=[])
        yield self._part_event("content_part.done", part=part)
        yield self._item_event("output_item.done", item=message)
        yield self._event("completed", response=self.whole(answer))

    def failed(self, problem: HttpProblem) -> bytes:
        error = {"code": "server_error", "message": str(problem)}
        return self._event("failed", response=self._response("failed", error=error))

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._sent += 1
        name = f"response.{kind}"
        return encode_event({"type": name, **fields, "sequence_number": self._sent - 1}, name=name)

    def _item_event(self, kind: str, **fields: Any) -> bytes:
        return self._event(kind, output_index=0, **fields)

    def _part_event(self, kind: str, **fields: Any) -> bytes:
        return self._item_event(kind, item_id=f"msg_{self._request_id}", content_index=0, **fields)

    def _response(self, status: str, **fields: Any) -> dict[str, Any]:
        return {
            "id": f"resp_{self._request_id}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "model": self._model,
            "output": [],
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
        } | fields

    def _item(self, status: str, content: list[Any]) -> dict[str, Any]:
        head = {"type": "message", "id": f"msg_{self._request_id}", "role": "assistant"}
        return head | {"status": status, "content": content}

    def _message(self, answer: dict[str, Any]) -> dict[str, Any]:
        text = _answer_text(answer)
        citations = [
            {"type": "file_citation", "file_id": cited["passage_id"], "filename": cited["source"], "index": len(text)}
            for cited in answer["citations"]
        ]
        return self._item("completed", [_text_part(text, citations)])


def openai_routes(context: HttpContext) -> APIRouter:
    """Return the routes for one server."""
    router = APIRouter()
    service = context.service
    stream: dict[int | str, dict[str, Any]] = {
        200: {"description": "As in OpenAI's API, with the reply of `/v1/ask` in `beliefrag`.", "content": _STREAM}
    }

    @router.post(_CHAT_PATH, summary="Answer the last user message, as OpenAI's API does", responses=stream)
    async def chat(request: Request, body: Annotated[ChatBody, Body()]) -> Response:
        ignored = _check_request(context, body)
        if body.stream_options is not None and not body.stream:
            raise _refusal(
                "invalid_parameter", "stream_options is only for streams.", "stream_options", "Leave it out."
            )
        question, skipped = _read_last(context, body.messages, "messages")
        form = _CompletionForm(request, body, ignored + skipped)
        check_question(question, service, field="messages")
        return await context.respond(request, question, service.assembly, form, stream=bool(body.stream))

    @router.post("/v1/responses", summary="Answer the input, as OpenAI's Responses API does", responses=stream)
    async def responses(request: Request, body: Annotated[ResponsesBody, Body()]) -> Response:
        ignored = _check_request(context, body)
        for name in ("previous_response_id", "conversation"):
            if name in ignored and context.earlier_turns == "refuse":
                raise _conversation(f"{name} names earlier turns", name)
        asked = [ChatMessage(role="user", content=body.input)] if isinstance(body.input, str) else body.input
        question, skipped = _read_last(context, asked, "input")
        form = _ResponseForm(request, body, ignored + skipped)
        check_question(question, service, field="input")
        return await context.respond(request, question, service.assembly, form, stream=bool(body.stream))

    @router.get("/v1/models", summary="The model to ask for")
    async def models() -> Response:
        return AsciiJson({"object": "list", "data": [_model_card(context.model_name)]})

    # A model's name may hold slashes, as in names of model hubs.
    @router.get("/v1/models/{model:path}", summary="One model")
    async def model(model: str) -> Response:
        _check_model_name(context, model)
        return AsciiJson(_model_card(model))

    return router


def _model_card(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "beliefrag"}


def _check_model_name(context: HttpContext, name: str) -> None:
    if name != context.model_name:
        words, remedy = "There is no such model here.", f"Ask for {context.model_name!r}."
        raise HttpProblem(404, "model_not_found", words, remedy=remedy, field="model")


def _check_request(context: HttpContext, body: OpenAIBody) -> list[str]:
    """Return the parameters of a request that are ignored; refuse those that would change the reply."""
    _check_model_name(context, body.model)
    given = {name: value for name, value in body.model_dump(exclude_unset=True).items() if value is not None}
    for name, value in given.items():
        if name in _CHANGES_REPLY and value not in _HARMLESS and (name, value) != ("n", 1):
            raise _refusal("unsupported_parameter", f"{name} is not supported here.", name, "Leave it out.")
    return [name for name in given if name not in (*_USED, *_CHANGES_REPLY)]


def _read_last(context: HttpContext, messages: Sequence[ChatMessage], field: str) -> tuple[str, list[str]]:
    """Return the text of the last message, and the places of those before it, which are ignored."""
    *before, last = messages
    if last.role != "user":
        raise _refusal("invalid_messages", f"The last message is by the {last.role}, not by the user.", field)
    earlier = [message for message in before if message.role not in ("system", "developer")]
    if earlier and context.earlier_turns == "refuse":
        raise _conversation(f"There are {len(earlier)} earlier turns", field)
    place = f"{field}[{len(before)}].content"
    if last.content is None:
        raise _refusal("invalid_messages", "The last message has no content.", place)
    parts = [{"type": "text", "text": last.content}] if isinstance(last.content, str) else last.content
    texts = [part.get("text") for part in parts if part.get("type") in ("text", "input_text")]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        raise _refusal("unsupported_content", "Only text can be answered.", place, "Send only text.")
    return "".join(map(str, texts)), [f"{field}[{index}]" for index in range(len(before))]


def _conversation(what: str, field: str) -> HttpProblem:
    words = f"{what}, and this server answers single questions."
    return _refusal("conversation_not_supported", words, field, "Send one question that can be understood alone.")


def _refusal(code: str, words: str, field: str, remedy: str = "") -> HttpProblem:
    return HttpProblem(400, code, words, remedy=remedy, field=field)


def _answer_text(answer: dict[str, Any]) -> str:
    """Return the content of the message. A client that does not know outcomes must still see that it got no answer."""
    if answer["answer"] is not None:
        return str(answer["answer"])
    return f"I cannot answer this from the documents: {answer['reason']}."


def _text_part(text: str, citations: list[Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": citations, "logprobs": []}
