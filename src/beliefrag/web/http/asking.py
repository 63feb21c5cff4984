"""`POST /v1/ask`: one question, answered as JSON, or as a stream of events while it is thought about."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from beliefrag.events import Event, Finished
from beliefrag.result import Result
from beliefrag.web.http.documented import problems, stream_of
from beliefrag.web.http.note import note_of
from beliefrag.web.http.problems import Json, Problem
from beliefrag.web.http.replies import Answer, answer_of, event_record
from beliefrag.web.http.request_settings import Wishes, assembly_for
from beliefrag.web.http.running import Running
from beliefrag.web.http.site import Site, finished
from beliefrag.web.http.streams import HEARTBEAT, EpisodeStream, as_sent, first_event, heard

__all__ = ["ask_routes"]

_STREAM = "text/event-stream"
_NAMES = (*(kind.kind for kind in Event.__subclasses__() if kind is not Finished), "result", "error")
_STREAM_EXAMPLE = (
    'id: 0\nevent: started\ndata: {"event":"started","step":0,"at":0.0,"question":{"text":"Who approves travel?",'
    '"id":""},"method":"beliefrag"}\n\n: still here\n\nid: 9\nevent: result\ndata: {"outcome":"answered",'
    '"answer":"the head of finance","answerability":0.84}\n\n'
)


class AskBody(BaseModel):
    """A question, and what may be different for it."""

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
    settings: Wishes | None = None


def ask_routes(site: Site) -> APIRouter:
    """The route, for one server."""
    router = APIRouter()

    @router.post(
        "/v1/ask",
        operation_id="ask",
        summary="Answer a question from the documents",
        response_model=Answer,
        responses={
            200: {
                "description": "An answer, or the outcome `abstained` without one. With `Accept: text/event-stream`, "
                "each event as it happens; the last is `result`, or `error` with a problem.",
                "content": stream_of(_STREAM_EXAMPLE, *_NAMES),
            },
            **problems(400, 401, 408, 413, 421, 422, 429, 500, 502, 503, 504),
        },
    )
    async def ask(request: Request, body: Annotated[AskBody, Body()]) -> Response:
        question = site.checked(body.question, "question")
        running = site.begin(request, question, assembly_for(site.service, body.settings))
        request_id = note_of(request.scope).request_id
        if _STREAM in request.headers.get("accept", ""):
            first = await first_event(running)
            return EpisodeStream(running, _told(site, running, first, request_id))
        result = await finished(running)
        return Json(answer_of(result, site.service, request_id).model_dump())

    return router


async def _told(site: Site, running: Running, first: Event, request_id: str) -> AsyncIterator[bytes]:
    seen: list[Event] = []
    try:
        async for event in heard(running, first, site.service.limits.heartbeat):
            if event is None:
                yield HEARTBEAT
                continue
            seen.append(event)
            record = event_record(event, prompts=site.show_prompts)
            if record is not None:
                yield as_sent(record, name=event.kind, number=len(seen) - 1)
        assert isinstance(seen[-1], Finished)
        last: dict[str, Any] = answer_of(Result.of(seen), site.service, request_id).model_dump()
        name = "result"
    except Problem as problem:
        last, name = problem.body("/v1/ask", request_id), "error"
    yield as_sent(last, name=name, number=len(seen))
