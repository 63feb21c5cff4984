"""Streamed replies over real sockets: what is shown while they come; they end as they would without streaming."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from beliefrag.errors import ReplyError, TransportError
from beliefrag.models.compose import RetryingModel, RetryPolicy
from beliefrag.models.openai_compatible import OpenAICompatible
from tests.support.chat import ask
from tests.support.http_server import ChatServer, Request, Response, completion, failure

USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


def event(delta: Mapping[str, Any] | None = None, *, finish: str | None = None, **more: Any) -> str:
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish, **more}]
    return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': choices})}\n\n"


def streamed(*events: str, done: bool = True, **how: Any) -> Response:
    ending = f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\ndata: [DONE]\n\n" if done else ""
    return Response("".join((*events, ending)).encode(), content_type="text/event-stream", **how)


def pieces(*texts: str) -> list[str]:
    return [event({"role": "assistant", "content": ""}), *(event({"content": text}) for text in texts)]


@pytest.fixture
async def model(chat_server: ChatServer) -> AsyncIterator[OpenAICompatible]:
    model = OpenAICompatible("m", chat_server.url)
    yield model
    await model.aclose()


async def test_the_text_grows_and_the_reply_is_the_one_of_an_unstreamed_call(
    chat_server: ChatServer, model: OpenAICompatible
) -> None:
    probabilities: list[dict[str, Any]] = [
        {"token": each, "logprob": -0.1, "top_logprobs": []} for each in ("Par", "is")
    ]
    told = [event({"content": each["token"]}, logprobs={"content": [each]}) for each in probabilities]
    chat_server.play(
        streamed(*told, event(finish="stop"), drip=0.0001), completion("Paris", logprobs={"content": probabilities})
    )
    shown: list[str] = []
    reply = await model.chat(ask(top_logprobs=1, on_text=shown.append))
    whole = await model.chat(ask(top_logprobs=1))
    assert shown == ["Par", "Paris"]
    assert reply == replace(whole, seconds=reply.seconds)
    assert [request.body["stream"] for request in chat_server.requests] == [True, False]
    assert chat_server.requests[0].body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    "thinking",
    [
        pieces("<thi", "nk>It could be Rome.", "</think>", "\n\nPar", "is"),
        [event({"reasoning_content": "It could be Rome."}), *pieces("Par", "is")],
        [event({"reasoning": "It could be Rome."}), *pieces("Par", "is")],
        [event({"content": [{"type": "thinking", "thinking": "Rome?"}]}), *pieces("Par", "is")],
    ],
)
async def test_thinking_is_never_shown(chat_server: ChatServer, model: OpenAICompatible, thinking: list[str]) -> None:
    chat_server.play(streamed(*thinking, event(finish="stop")))
    shown: list[str] = []
    assert (await model.chat(ask(on_text=shown.append))).text == "Paris"
    assert shown == ["Par", "Paris"]


async def test_a_model_that_leaves_the_start_tag_out_is_shown_from_its_end_tag_once_that_is_known(
    chat_server: ChatServer, model: OpenAICompatible
) -> None:
    chat_server.play(completion("I think of Rome.</think>Oslo"), streamed(*pieces("Rome?", "</think>Par", "is")))
    shown: list[str] = []
    await model.chat(ask())
    assert (await model.chat(ask(on_text=shown.append))).text == "Paris"
    assert shown == ["Par", "Paris"]


@pytest.mark.parametrize("how", [{"done": False}, {"cut": 40}])
async def test_a_stream_that_breaks_off_is_asked_for_again(
    chat_server: ChatServer, model: OpenAICompatible, how: dict[str, Any]
) -> None:
    chat_server.play(streamed(*pieces("Ro", "me"), **how), streamed(*pieces("Paris"), event(finish="stop")))
    shown: list[str] = []
    policy = RetryPolicy(wait_initial=0.0, wait_jitter=0.0)
    reply = await RetryingModel(model, policy).chat(ask(on_text=shown.append))
    assert (reply.text, reply.retries) == ("Paris", 1)
    assert shown == ["Ro", "Rome", "Paris"]


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        (f"data: {json.dumps({'error': {'message': 'out of memory', 'code': 500}})}\n\n", TransportError),
        ('data: {"choices": 7}\n\n', ReplyError),
        ("data: not JSON\n\n", TransportError),
    ],
)
async def test_an_error_within_a_stream_is_no_answer(
    chat_server: ChatServer, model: OpenAICompatible, last: str, problem: type[Exception]
) -> None:
    chat_server.play(streamed(*pieces("Par", "is"), last))
    with pytest.raises(problem):
        await model.chat(ask(on_text=lambda _: None))


@pytest.mark.parametrize("field", ["stream_options", "stream"])
async def test_a_server_that_rejects_or_ignores_streaming_is_asked_without(
    chat_server: ChatServer, model: OpenAICompatible, field: str
) -> None:
    def answer(request: Request) -> Response:
        if request.body.get(field):
            return failure(400, f"Unsupported parameter: {field}")
        return completion("Paris")

    chat_server.play(answer)
    for _ in range(2):
        assert (await model.chat(ask(on_text=lambda _: None))).text == "Paris"
    assert [bool(request.body.get(field)) for request in chat_server.requests] == [True, False, False]
