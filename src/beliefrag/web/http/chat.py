"""`/v1/chat/completions` and `/v1/models`: existing clients get controlled retrieval without a change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from beliefrag.events import Event
from beliefrag.result import Result
from beliefrag.web.http.chat_body import ChatBody, understood
from beliefrag.web.http.chat_replies import ChatCompletion, Completion, ModelCard, ModelList, said
from beliefrag.web.http.documented import openai_errors, stream_of
from beliefrag.web.http.note import note_of
from beliefrag.web.http.problems import Json, Problem
from beliefrag.web.http.replies import answer_of
from beliefrag.web.http.running import Running
from beliefrag.web.http.site import Site, finished
from beliefrag.web.http.streams import HEARTBEAT, EpisodeStream, as_sent, first_event, heard

__all__ = ["chat_routes"]

_PATH = "/v1/chat/completions"
_STREAM_EXAMPLE = (
    'data: {"id":"chatcmpl-5f1c","object":"chat.completion.chunk","created":1767225600,"model":"beliefrag","choices":'
    '[{"index":0,"delta":{"role":"assistant","content":"the head of finance"},"logprobs":null,"finish_reason":null}]}'
    "\n\ndata: [DONE]\n\n"
)


def chat_routes(site: Site) -> APIRouter:
    """The routes, for one server."""
    router = APIRouter()

    @router.post(
        _PATH,
        operation_id="chat",
        summary="Answer the last user message, as OpenAI's API does",
        response_model=ChatCompletion,
        responses={
            200: {
                "description": "The answer as a chat completion; with `stream`, in chunks.",
                "content": stream_of(_STREAM_EXAMPLE),
            },
            **openai_errors(400, 401, 404, 408, 413, 421, 429, 500, 502, 503, 504),
        },
    )
    async def chat(request: Request, body: Annotated[ChatBody, Body()]) -> Response:
        _known(site, body.model)
        asked = understood(body, earlier_turns=site.earlier_turns)
        running = site.begin(request, site.checked(asked.question, "messages"), site.service.assembly)
        completion = Completion(note_of(request.scope).request_id, body.model, asked.ignored)
        if body.stream:
            first = await first_event(running)
            with_usage = bool(body.stream_options and body.stream_options.include_usage)
            return EpisodeStream(running, _chunks(site, running, first, completion, with_usage=with_usage))
        return Json(completion.whole(answer_of(await finished(running), site.service, completion.request_id)))

    @router.get(
        "/v1/models",
        operation_id="models",
        summary="The model to ask for",
        response_model=ModelList,
        responses=openai_errors(401, 421),
    )
    async def models() -> Response:
        return Json(ModelList(data=[ModelCard(id=site.model_name)]).model_dump())

    # A name may hold slashes, as those of hubs do; whatever else is asked for is not there.
    @router.get(
        "/v1/models/{model:path}",
        operation_id="model",
        summary="One model",
        response_model=ModelCard,
        responses=openai_errors(401, 404, 421),
    )
    async def model(model: str) -> Response:
        _known(site, model)
        return Json(ModelCard(id=model).model_dump())

    return router


def _known(site: Site, name: str) -> None:
    if name != site.model_name:
        raise Problem(
            404,
            "model_not_found",
            "There is no such model here.",
            remedy=f"Ask for {site.model_name!r}.",
            field="model",
        )


async def _chunks(
    site: Site, running: Running, first: Event, completion: Completion, *, with_usage: bool
) -> AsyncIterator[bytes]:
    no_usage = {"usage": None} if with_usage else {}
    seen: list[Event] = []
    yield as_sent(completion.chunk({"role": "assistant", "content": ""}, **no_usage))
    try:
        async for event in heard(running, first, site.service.limits.heartbeat):
            if event is None:
                yield HEARTBEAT
            else:
                seen.append(event)
        answer = answer_of(Result.of(seen), site.service, completion.request_id)
    except Problem as problem:
        # The status has been sent: OpenAI's clients raise what they find under "error".
        yield as_sent(problem.body(_PATH, completion.request_id))
        return
    yield as_sent(completion.chunk({"content": said(answer)}, **no_usage))
    yield as_sent({**completion.last_chunk(answer), **no_usage})
    if with_usage:
        yield as_sent(completion.usage_chunk(answer))
    yield as_sent("[DONE]")
