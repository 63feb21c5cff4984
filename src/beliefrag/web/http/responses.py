"""`/v1/responses`: OpenAI's Responses API, which its clients use beside chat completions."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from beliefrag.web.answers import EXAMPLE_ANSWER, AnswerBody, answer_body
from beliefrag.web.http.chat import check_model_name
from beliefrag.web.http.chat_schema import (
    AnswerDetails,
    ChatMessage,
    ChatQuestion,
    answer_details,
    answer_text,
    find_ignored,
    join_text,
    last_question,
)
from beliefrag.web.http.context import HttpContext
from beliefrag.web.http.streams import (
    EpisodeStream,
    document_stream,
    encode_event,
    stream_answer,
    wait_for_admission,
    wait_for_result,
)
from beliefrag.web.problems import AsciiJson, HttpProblem, document_openai_errors
from beliefrag.web.request_log import request_record
from beliefrag.web.request_settings import check_question

__all__ = ["ResponseObject", "ResponsesBody", "responses_routes"]

_PATH = "/v1/responses"
_USED = frozenset({"model", "input", "stream", "previous_response_id", "conversation"})
_HARMLESS_VALUES: dict[str, tuple[Any, ...]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "text": ({}, {"format": {"type": "text"}}),
    "top_logprobs": (0,),
    "background": (False,),
    "prompt": (),
}
_EXAMPLE_REQUEST: dict[str, Any] = {"model": "beliefrag", "input": "Who approves travel above the limit?"}
_STREAM_EXAMPLE = (
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"msg_5f1c",'
    '"output_index":0,"content_index":0,"delta":"the head of finance","logprobs":[],"sequence_number":4}\n\n'
)


class InputMessage(ChatMessage):
    """One message of the input."""

    type: Literal["message"] = "message"


class ResponsesBody(BaseModel):
    """A request of the Responses API. Parameters that are not listed here are ignored and named in the reply."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [_EXAMPLE_REQUEST, {**_EXAMPLE_REQUEST, "stream": True}]}
    )

    model: str
    input: str | Annotated[list[InputMessage], Field(min_length=1)] = Field(
        description="A question, or messages of which the last one, by the user, is answered."
    )
    stream: bool | None = None
    instructions: str | None = Field(default=None, description="ignored: the method has its own prompts")
    previous_response_id: str | None = Field(default=None, description="an earlier turn: refused or ignored")
    tools: list[Any] | None = Field(default=None, description="refused unless empty")
    text: dict[str, Any] | None = Field(default=None, description='{"format": {"type": "text"}}; others are refused')
    background: bool | None = Field(default=None, description="true is refused")
    temperature: float | None = Field(default=None, description="ignored: model calls are made at temperature 0")
    max_output_tokens: int | None = Field(default=None, description="ignored: the server's budget decides")


class _Annotation(BaseModel):
    type: Literal["file_citation"]
    file_id: str
    filename: str
    index: int


class _OutputText(BaseModel):
    type: Literal["output_text"]
    text: str
    annotations: list[_Annotation]
    logprobs: list[Any]


class _OutputMessage(BaseModel):
    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: Literal["in_progress", "completed"]
    content: list[_OutputText]


class _Usage(BaseModel):
    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class _Error(BaseModel):
    code: str
    message: str


class ResponseObject(BaseModel):
    """A response; `beliefrag` holds outcome, answerability and citations. Nothing is stored on the server."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None = None
    status: Literal["in_progress", "completed", "failed"]
    error: _Error | None = None
    incomplete_details: None = None
    instructions: None = None
    metadata: dict[str, str] = {}
    model: str
    output: list[_OutputMessage]
    parallel_tool_calls: Literal[False] = False
    temperature: float = 0.0
    tool_choice: Literal["none"] = "none"
    tools: list[Any] = []
    top_p: float | None = None
    store: Literal[False] = False
    usage: _Usage | None = None
    beliefrag: AnswerDetails | None = None


class ResponseBuilder:
    """Builds one response, and the events of its stream.

    Args:
        request_id: Identifies it.
        model: The model that was asked for.
        ignored: The parts of the request that were ignored.
        created: When it was made, in seconds since 1970; by default now.
    """

    def __init__(self, request_id: str, model: str, ignored: tuple[str, ...], *, created: int | None = None) -> None:
        self.request_id = request_id
        self._model = model
        self._ignored = ignored
        self._created = int(time.time()) if created is None else created
        self._sent = 0

    def started_response(self) -> dict[str, Any]:
        """Return the response of an episode that runs."""
        return self._response("in_progress", output=[])

    def completed_response(self, answer: AnswerBody) -> dict[str, Any]:
        """Return the response with the answer."""
        usage = answer.usage
        return self._response(
            "completed",
            output=[self._message(answer)],
            completed_at=max(self._created, int(time.time())),
            usage=_Usage(
                input_tokens=usage.tokens_in,
                input_tokens_details={"cached_tokens": 0, "cache_write_tokens": 0},
                output_tokens=usage.tokens_out,
                output_tokens_details={"reasoning_tokens": 0},
                total_tokens=usage.tokens,
            ),
            beliefrag=AnswerDetails.model_validate(answer_details(answer, self._ignored)),
        )

    def failed_response(self, problem: HttpProblem) -> dict[str, Any]:
        """Return the response of an episode that failed after the stream had begun."""
        return self._response("failed", output=[], error=_Error(code="server_error", message=str(problem)))

    def event(self, kind: str, **fields: Any) -> bytes:
        """Return one event of the stream."""
        data = {"type": kind, **fields, "sequence_number": self._sent}
        self._sent += 1
        return encode_event(data, name=kind)

    def opening_events(self) -> list[bytes]:
        """Return the events before anything is known."""
        item = {"type": "message", "id": self._item_id, "role": "assistant", "status": "in_progress", "content": []}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return [
            self.event("response.created", response=self.started_response()),
            self.event("response.in_progress", response=self.started_response()),
            self.event("response.output_item.added", output_index=0, item=item),
            self.event("response.content_part.added", **self._place, part=part),
        ]

    def closing_events(self, answer: AnswerBody) -> list[bytes]:
        """Return the events with the answer, which is known only at the end."""
        message = self._message(answer).model_dump()
        (part,) = message["content"]
        return [
            self.event("response.output_text.delta", **self._place, delta=part["text"], logprobs=[]),
            self.event("response.output_text.done", **self._place, text=part["text"], logprobs=[]),
            self.event("response.content_part.done", **self._place, part=part),
            self.event("response.output_item.done", output_index=0, item=message),
            self.event("response.completed", response=self.completed_response(answer)),
        ]

    @property
    def _item_id(self) -> str:
        return f"msg_{self.request_id}"

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _response(self, status: Literal["in_progress", "completed", "failed"], **fields: Any) -> dict[str, Any]:
        return ResponseObject(
            id=f"resp_{self.request_id}",
            object="response",
            created_at=self._created,
            status=status,
            model=self._model,
            **fields,
        ).model_dump()

    def _message(self, answer: AnswerBody) -> _OutputMessage:
        text = answer_text(answer)
        citations = [
            _Annotation(type="file_citation", file_id=cited.passage_id, filename=cited.source, index=len(text))
            for cited in answer.citations
        ]
        part = _OutputText(type="output_text", text=text, annotations=citations, logprobs=[])
        return _OutputMessage(type="message", id=self._item_id, role="assistant", status="completed", content=[part])


def responses_routes(context: HttpContext) -> APIRouter:
    """Return the route for one server."""
    router = APIRouter()
    service = context.service

    @router.post(
        _PATH,
        operation_id="responses",
        summary="Answer the input, as OpenAI's Responses API does",
        response_model=ResponseObject,
        responses={
            200: {
                "description": "The answer as a response; with `stream`, as events.",
                "content": document_stream(_STREAM_EXAMPLE),
            },
            **document_openai_errors(400, 401, 404, 408, 413, 415, 421, 429, 500, 502, 503, 504),
        },
    )
    async def respond(request: Request, body: Annotated[ResponsesBody, Body()]) -> Response:
        check_model_name(context, body.model)
        question = read_responses_question(body, earlier_turns=context.earlier_turns)
        text = check_question(question.text, service, field="input")
        task = context.start_episode(request, text, service.assembly)
        builder = ResponseBuilder(request_record(request.scope).request_id, body.model, question.ignored)
        if body.stream:
            pieces = stream_answer(
                task,
                await wait_for_admission(task),
                service,
                builder.request_id,
                closing=builder.closing_events,
                failed=lambda problem: builder.event("response.failed", response=builder.failed_response(problem)),
            )
            return EpisodeStream(task, pieces, builder.opening_events())
        return AsciiJson(
            builder.completed_response(answer_body(await wait_for_result(task), service, builder.request_id))
        )

    return router


def read_responses_question(body: ResponsesBody, *, earlier_turns: Literal["refuse", "ignore"]) -> ChatQuestion:
    """Read the question of a request, and which of its parts are ignored.

    Raises:
        HttpProblem: It asks for something that this server does not do.
    """
    ignored = find_ignored(body, used=_USED, harmless=_HARMLESS_VALUES)
    given = body.model_dump(exclude_none=True)
    if earlier := [name for name in ("previous_response_id", "conversation") if name in given]:
        if earlier_turns == "refuse":
            raise HttpProblem(
                400,
                "conversation_not_supported",
                f"{earlier[0]} names earlier turns, and this server answers single questions.",
                remedy="Send one question that can be understood alone.",
                field=earlier[0],
            )
        ignored += earlier
    if isinstance(body.input, str):
        return ChatQuestion(body.input, tuple(ignored))
    last, skipped = last_question(body.input, "input", earlier_turns=earlier_turns)
    place = f"input[{len(body.input) - 1}].content"
    return ChatQuestion(join_text(last, place, kinds=("input_text", "text")), tuple(ignored + skipped))


_EXAMPLE = ResponseBuilder(EXAMPLE_ANSWER["id"], "beliefrag", ("temperature",), created=1767225600)
ResponseObject.model_config["json_schema_extra"] = {
    "examples": [_EXAMPLE.completed_response(AnswerBody.model_validate(EXAMPLE_ANSWER)) | {"completed_at": 1767225602}]
}
