"""`POST /v1/ask`: one question, answered as JSON or as a stream of events while the episode runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from beliefrag.events import Event, Finished
from beliefrag.result import Result
from beliefrag.web.admission import Waiting
from beliefrag.web.answers import AnswerBody, answer_record, event_record
from beliefrag.web.http.context import HttpContext
from beliefrag.web.http.streams import (
    EVENT_STREAM,
    HEARTBEAT,
    EpisodeStream,
    document_stream,
    encode_event,
    events_with_heartbeats,
    wait_for_admission,
    wait_for_result,
)
from beliefrag.web.problems import AsciiJson, HttpProblem, document_problems
from beliefrag.web.request_log import request_record
from beliefrag.web.request_settings import RequestSettings, assembly_for_request, check_question
from beliefrag.web.service import EpisodeTask

__all__ = ["AskBody", "ask_routes"]

_PATH = "/v1/ask"
_EVENT_NAMES = ("waiting", *(kind.kind for kind in Event.__subclasses__() if kind is not Finished), "result", "error")
_STREAM_EXAMPLE = (
    'id: 0\nevent: started\ndata: {"event":"started","step":0,"at":0.0,"question":{"text":"Who approves travel?",'
    '"id":""},"method":"beliefrag"}\n\n: still here\n\nid: 9\nevent: result\ndata: {"outcome":"answered",'
    '"answer":"the head of finance","answerability":0.84}\n\n'
)


class AskBody(BaseModel):
    """A question, and settings that hold for it alone."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"question": "Who approves travel above the limit?"},
                {
                    "question": "Who approves travel above the limit?",
                    "settings": {"budget": {"rounds": 1, "tokens": 4000}, "thresholds": {"answer": 0.7}},
                },
            ]
        },
    )

    question: str = Field(min_length=1, description="What to answer from the documents.")
    settings: RequestSettings | None = None


def ask_routes(context: HttpContext) -> APIRouter:
    """Return the route for one server."""
    router = APIRouter()

    @router.post(
        _PATH,
        operation_id="ask",
        summary="Answer a question from the documents",
        response_model=AnswerBody,
        responses={
            200: {
                "description": "An answer, or the outcome `abstained` without one. With `Accept: text/event-stream`, "
                "each event as it happens; the last is `result`, or `error` with a problem.",
                "content": document_stream(_STREAM_EXAMPLE, *_EVENT_NAMES),
            },
            **document_problems(400, 401, 408, 413, 415, 421, 422, 429, 500, 502, 503, 504),
        },
    )
    async def ask(request: Request, body: Annotated[AskBody, Body()]) -> Response:
        service = context.service
        question = check_question(body.question, service, field="question")
        task = context.start_episode(request, question, assembly_for_request(service, body.settings))
        request_id = request_record(request.scope).request_id
        if EVENT_STREAM in request.headers.get("accept", ""):
            first = await wait_for_admission(task)
            return EpisodeStream(task, _stream_events(context, task, first, request_id))
        return AsciiJson(answer_record(await wait_for_result(task), service, request_id))

    return router


async def _stream_events(
    context: HttpContext, task: EpisodeTask, first: Event | Waiting, request_id: str
) -> AsyncIterator[bytes]:
    seen: list[Event] = []
    try:
        async for event in events_with_heartbeats(task, first, context.service.limits.heartbeat):
            if event is None:
                yield HEARTBEAT
                continue
            if isinstance(event, Waiting):
                if event.place:
                    yield encode_event({"event": "waiting", **asdict(event)}, name="waiting")
                continue
            seen.append(event)
            record = event_record(event, prompts=context.show_prompts)
            if record is not None:
                yield encode_event(record, name=event.kind, number=len(seen) - 1)
        last: dict[str, Any] = answer_record(Result.from_events(seen), context.service, request_id)
        name = "result"
    except HttpProblem as problem:
        last, name = problem.body(_PATH, request_id), "error"
    yield encode_event(last, name=name, number=len(seen))
