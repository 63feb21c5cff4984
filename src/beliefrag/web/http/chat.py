"""`/v1/chat/completions` and `/v1/models`: existing clients of OpenAI's API work without a change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from beliefrag.web.answers import AnswerBody, answer_body
from beliefrag.web.http.chat_schema import (
    ChatBody,
    ChatCompletion,
    CompletionBuilder,
    ModelCard,
    ModelList,
    answer_text,
    read_chat_question,
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

__all__ = ["chat_routes", "check_model_name"]

_PATH = "/v1/chat/completions"
_STREAM_EXAMPLE = (
    'data: {"id":"chatcmpl-5f1c","object":"chat.completion.chunk","created":1767225600,"model":"beliefrag","choices":'
    '[{"index":0,"delta":{"role":"assistant","content":"the head of finance"},"logprobs":null,"finish_reason":null}]}'
    "\n\ndata: [DONE]\n\n"
)


def chat_routes(context: HttpContext) -> APIRouter:
    """Return the routes for one server."""
    router = APIRouter()
    service = context.service

    @router.post(
        _PATH,
        operation_id="chat",
        summary="Answer the last user message, as OpenAI's API does",
        response_model=ChatCompletion,
        responses={
            200: {
                "description": "The answer as a chat completion; with `stream`, in chunks.",
                "content": document_stream(_STREAM_EXAMPLE),
            },
            **document_openai_errors(400, 401, 404, 408, 413, 415, 421, 429, 500, 502, 503, 504),
        },
    )
    async def chat(request: Request, body: Annotated[ChatBody, Body()]) -> Response:
        check_model_name(context, body.model)
        question = read_chat_question(body, earlier_turns=context.earlier_turns)
        text = check_question(question.text, service, field="messages")
        task = context.start_episode(request, text, service.assembly)
        builder = CompletionBuilder(request_record(request.scope).request_id, body.model, question.ignored)
        if body.stream:
            with_usage = bool(body.stream_options and body.stream_options.include_usage)
            role = builder.chunk({"role": "assistant", "content": ""}, **({"usage": None} if with_usage else {}))
            pieces = stream_answer(
                task,
                await wait_for_admission(task),
                service,
                builder.request_id,
                closing=lambda answer: _closing_chunks(builder, answer, with_usage=with_usage),
                # OpenAI's clients raise what they find under "error".
                failed=lambda problem: encode_event(problem.body(_PATH, builder.request_id)),
            )
            return EpisodeStream(task, pieces, [encode_event(role)])
        answer = answer_body(await wait_for_result(task), service, builder.request_id)
        return AsciiJson(builder.completion(answer))

    @router.get(
        "/v1/models",
        operation_id="models",
        summary="The model to ask for",
        response_model=ModelList,
        responses=document_openai_errors(401, 421),
    )
    async def models() -> Response:
        return AsciiJson(ModelList(data=[ModelCard(id=context.model_name)]).model_dump())

    # A model's name may hold slashes, as in names of model hubs.
    @router.get(
        "/v1/models/{model:path}",
        operation_id="model",
        summary="One model",
        response_model=ModelCard,
        responses=document_openai_errors(401, 404, 421),
    )
    async def model(model: str) -> Response:
        check_model_name(context, model)
        return AsciiJson(ModelCard(id=model).model_dump())

    return router


def check_model_name(context: HttpContext, name: str) -> None:
    """Check that a client asks for the model of this server.

    Raises:
        HttpProblem: It asks for another one.
    """
    if name != context.model_name:
        words, remedy = "There is no such model here.", f"Ask for {context.model_name!r}."
        raise HttpProblem(404, "model_not_found", words, remedy=remedy, field="model")


def _closing_chunks(builder: CompletionBuilder, answer: AnswerBody, *, with_usage: bool) -> Iterator[bytes]:
    no_usage = {"usage": None} if with_usage else {}
    yield encode_event(builder.chunk({"content": answer_text(answer)}, **no_usage))
    yield encode_event({**builder.last_chunk(answer), **no_usage})
    if with_usage:
        yield encode_event(builder.usage_chunk(answer))
    yield encode_event("[DONE]")
