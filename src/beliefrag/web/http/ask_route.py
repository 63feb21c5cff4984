"""`POST /v1/ask`: one question, answered as JSON or as a stream of events while the episode runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from beliefrag.record import CallStarted, Episode, Progress, Step
from beliefrag.web.admission import Waiting
from beliefrag.web.answers import AnswerBody, step_record
from beliefrag.web.http.episodes import EVENT_STREAM, HttpContext, ReplyForm, encode_event
from beliefrag.web.problems import HttpProblem
from beliefrag.web.request_log import request_record
from beliefrag.web.request_settings import RequestSettings, assembly_for_request, check_question

__all__ = ["AskBody", "ask_routes"]

_PATH = "/v1/ask"
_STREAM: dict[str, Any] = {
    "description": "An answer, or the outcome `abstained` without one. With `Accept: text/event-stream`, `started` and "
    "each `step` as it ends; the last event is `result` with the answer, or `error` with a problem.",
    "content": {EVENT_STREAM: {}},
}


class AskBody(BaseModel):
    """A question, and settings that hold for it alone."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(
        min_length=1,
        description="What to answer from the documents.",
        examples=["Who approves travel above the limit?"],
    )
    settings: RequestSettings | None = None


class _EventForm(ReplyForm):
    """The events of the episode, numbered; the last one is `result` or `error`."""

    def __init__(self, request_id: str, *, prompts: bool) -> None:
        self._request_id = request_id
        self._prompts = prompts
        self._number = 0

    def waiting(self, waiting: Waiting) -> bytes:
        return encode_event(asdict(waiting), name="waiting")

    def event(self, event: Progress) -> bytes:
        match event:
            case Step():
                name, record = "step", step_record(event, prompts=self._prompts)
            case Episode():
                name, record = "started", event.model_dump(mode="json", include={"question", "method", "budget"})
            case CallStarted():
                name, record = "call_started", event.model_dump()
        self._number += 1
        return encode_event(record, name=name, number=self._number - 1)

    def closing(self, answer: dict[str, Any]) -> Iterable[bytes]:
        return [encode_event(answer, name="result", number=self._number)]

    def failed(self, problem: HttpProblem) -> bytes:
        return encode_event(problem.body(_PATH, self._request_id), name="error", number=self._number)


def ask_routes(context: HttpContext) -> APIRouter:
    """Return the route for one server."""
    router = APIRouter()

    @router.post(
        _PATH, summary="Answer a question from the documents", response_model=AnswerBody, responses={200: _STREAM}
    )
    async def ask(request: Request, body: Annotated[AskBody, Body()]) -> Response:
        service = context.service
        question = check_question(body.question, service, field="question")
        assembly = assembly_for_request(service, body.settings)
        form = _EventForm(request_record(request.scope).request_id, prompts=context.show_prompts)
        stream = EVENT_STREAM in request.headers.get("accept", "")
        return await context.respond(request, question, assembly, form, stream=stream)

    return router
