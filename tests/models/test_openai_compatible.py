from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from beliefrag.errors import SettingsError, TransportError
from beliefrag.models.compose import RetryingModel
from beliefrag.models.cost import LOCAL_COUNT
from beliefrag.models.openai_compatible import OpenAICompatible
from beliefrag.models.protocol import ChatModel, TokenProbability
from tests.support.chat import ask
from tests.support.http_server import ChatServer, Request, Response, completion, failure

NO_TEMPERATURE = hashlib.sha256(b'{"temperature": null}').hexdigest()[:8]
SCHEMA = {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "number"}}, "required": ["b", "a"]}


@pytest.fixture
async def model(chat_server: ChatServer) -> AsyncIterator[OpenAICompatible]:
    model = OpenAICompatible("m", chat_server.url)
    yield model
    await model.aclose()


async def test_a_reply_carries_its_text_and_the_server_s_count(
    chat_server: ChatServer, model: OpenAICompatible
) -> None:
    chat_server.play(completion("Paris", delay=0.05))
    reply = await model.chat(ask())
    assert (reply.text, reply.tokens_in, reply.tokens_out, reply.counted_by) == ("Paris", 11, 3, "server")
    assert 0.05 <= reply.seconds < 5
    assert reply.tokens is None
    assert (reply.cached, reply.retries, reply.wasted_tokens) == (False, 0, 0)
    assert isinstance(model, ChatModel)


async def test_only_what_was_asked_for_is_sent(chat_server: ChatServer, model: OpenAICompatible) -> None:
    await model.chat(ask("Why?"))
    sent = chat_server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Why?"}],
        "temperature": 0.0,
        "max_tokens": 64,
        "stream": False,
    }


@pytest.mark.parametrize(
    ("fields", "limit"), [({}, 64), ({"schema": SCHEMA}, 256), ({"purpose": "write"}, 512), ({"max_tokens": 9}, 9)]
)
async def test_a_reply_has_a_small_limit_by_purpose(
    chat_server: ChatServer, model: OpenAICompatible, fields: dict[str, Any], limit: int
) -> None:
    await model.chat(ask(**fields))
    assert chat_server.requests[0].body["max_tokens"] == limit


async def test_a_reply_that_is_cut_off_is_asked_for_once_more_as_long_as_the_server_allows(
    chat_server: ChatServer, model: OpenAICompatible
) -> None:
    def answer(request: Request) -> Response:
        if request.body["max_tokens"] > 3_000:
            return failure(400, "max_tokens is too large: this model's maximum context length is 4096 tokens")
        return completion("A, B, ", finish="length") if request.body["max_tokens"] < 100 else completion("A, B, C")

    chat_server.play(answer)
    for _ in range(2):
        reply = await model.chat(ask())
        assert (reply.text, reply.truncated, reply.retries, reply.wasted_tokens) == ("A, B, C", False, 1, 14)
    assert [request.body["max_tokens"] for request in chat_server.requests] == [64, 4_096, 1_024, 64, 1_024]
    chat_server.play(failure(400, "maximum context length is 4096 tokens: 4000 in the messages, 512 in the completion"))
    with pytest.raises(TransportError, match="too long"):
        await model.chat(ask(purpose="write"))
    chat_server.play(completion("A, B, ", finish="length"))
    assert (await model.chat(ask())).truncated
    assert [request.body["max_tokens"] for request in chat_server.requests[5:]] == [512, 64, 1_024]
    assert (await model.chat(ask(max_tokens=3))).truncated
    assert len(chat_server.requests) == 9


async def test_a_model_that_thinks_gets_a_larger_limit_from_then_on(
    chat_server: ChatServer, model: OpenAICompatible
) -> None:
    def answer(request: Request) -> Response:
        return completion("", finish="length") if request.body["max_tokens"] < 1_000 else completion("yes")

    chat_server.play(answer)
    first, second, third = [await model.chat(ask(max_tokens=limit)) for limit in (1, None, 160)]
    assert (first.text, first.wasted_tokens, second.wasted_tokens, third.wasted_tokens) == ("yes", 14, 0, 0)
    assert [request.body["max_tokens"] for request in chat_server.requests] == [1, 4_096, 4_096, 4_096]


async def test_schema_tokens_probabilities_and_stop_texts_are_sent_when_asked_for(
    chat_server: ChatServer, model: OpenAICompatible
) -> None:
    await model.chat(ask(schema=SCHEMA, max_tokens=9, top_logprobs=5, stop=("</a>", "</b>")))
    body = chat_server.requests[0].body
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
    }
    assert list(body["response_format"]["json_schema"]["schema"]["properties"]) == ["b", "a"]
    assert (body["max_tokens"], body["logprobs"], body["top_logprobs"]) == (9, True, 5)
    assert body["stop"] == ["</a>", "</b>"]


async def test_probabilities_come_back_as_natural_logarithms(chat_server: ChatServer, model: OpenAICompatible) -> None:
    top = [{"token": "yes", "logprob": -0.1}, {"token": "no", "logprob": -2.4}, {"token": "x", "logprob": -math.inf}]
    chat_server.play(completion("yes", logprobs={"content": [{"token": "yes", "logprob": -0.1, "top_logprobs": top}]}))
    reply = await model.chat(ask(top_logprobs=3))
    assert reply.tokens == (TokenProbability("yes", -0.1, (("yes", -0.1), ("no", -2.4), ("x", -9999.0))),)


@pytest.mark.parametrize("given", [None, {"content": None}, {"tokens": ["yes"], "token_logprobs": [-0.1]}, "odd"])
async def test_a_server_without_probabilities_gives_none(
    chat_server: ChatServer, model: OpenAICompatible, given: Any
) -> None:
    chat_server.play(completion("yes", logprobs=given))
    assert (await model.chat(ask(top_logprobs=3))).tokens is None


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": None}])
async def test_tokens_are_counted_here_when_the_server_does_not(
    chat_server: ChatServer, model: OpenAICompatible, usage: dict[str, Any] | None
) -> None:
    chat_server.play(completion("Paris, France", usage=usage))
    reply = await model.chat(ask("Where?"))
    assert (reply.tokens_in, reply.tokens_out, reply.counted_by) == (2 + 4 + 2 + 4, 3, LOCAL_COUNT)


async def test_a_model_that_is_stopped_within_its_thinking_is_asked_again_without_stop_texts(
    chat_server: ChatServer, model: OpenAICompatible
) -> None:
    def answer(request: Request) -> Response:
        if "stop" in request.body:
            return completion(None, message={"reasoning_content": "I could write <a>"})
        return completion("<a>Paris</a>", message={"reasoning_content": "I could write <a></a>."})

    chat_server.play(answer)
    first, second = [await RetryingModel(model).chat(ask(stop=("</a>",))) for _ in range(2)]
    assert (first.text, first.retries, first.wasted_tokens) == ("<a>Paris", 1, 14)
    assert (second.text, second.retries, second.wasted_tokens) == ("<a>Paris", 0, 0)


async def test_the_key_is_sent_and_a_local_server_needs_none(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, expected in [(None, "Bearer no-key"), ("sk-given\n", "Bearer sk-given")]:
        model = OpenAICompatible("m", chat_server.url, key)
        await model.chat(ask())
        await model.aclose()
        assert chat_server.requests[-1].headers["authorization"] == expected
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", chat_server.url)
    model = OpenAICompatible("m")
    await model.chat(ask())
    await model.aclose()
    assert chat_server.requests[-1].headers["authorization"] == "Bearer sk-environment"


async def test_credentials_and_parameters_in_the_base_url_are_used_but_not_in_the_identity(
    chat_server: ChatServer,
) -> None:
    model = OpenAICompatible("m", f"http://me:pass%20word@{chat_server.host}/v1/?api-version=2024-10-01&sig=abcdefgh")
    assert model.identity == f"openai:m@{chat_server.url}"
    await model.chat(ask())
    await model.aclose()
    sent = chat_server.requests[0]
    assert sent.path == "/v1/chat/completions?api-version=2024-10-01&sig=abcdefgh"
    assert sent.headers["authorization"] == "Basic " + base64.b64encode(b"me:pass word").decode()


async def test_building_one_needs_no_key_but_asking_does() -> None:
    model = OpenAICompatible("gpt-x")
    assert model.identity == "openai:gpt-x@https://api.openai.com/v1"
    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        await model.chat(ask())


async def test_the_temperature_is_part_of_the_identity_unless_it_is_0(chat_server: ChatServer) -> None:
    warm = OpenAICompatible("m", chat_server.url, temperature=None)
    assert warm.identity == f"openai:m@{chat_server.url}#{NO_TEMPERATURE}"
    await warm.chat(ask())
    assert "temperature" not in chat_server.requests[-1].body
    await warm.aclose()


async def test_further_fields_are_sent_and_part_of_the_identity_and_headers_are_only_sent(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-server")
    monkeypatch.setenv("GATEWAY_KEY", "gateway-secret")
    more = {"reasoning_effort": "low", "max_completion_tokens": 7}
    model = OpenAICompatible("m", chat_server.url, extra_body=more, headers={"api-key": "$GATEWAY_KEY", "x-team": "a"})
    assert model.identity != OpenAICompatible("m", chat_server.url).identity
    assert model.identity == OpenAICompatible("m", chat_server.url, extra_body=more, headers={"x-team": "b"}).identity
    await model.chat(ask())
    sent = chat_server.requests[0]
    assert sent.body.items() >= more.items() and "max_tokens" not in sent.body
    assert (sent.headers["api-key"], sent.headers["x-team"]) == ("gateway-secret", "a")
    assert "authorization" not in sent.headers
    chat_server.play(failure(403, "the key gateway-secret may not"))
    with pytest.raises(TransportError) as caught:
        await model.chat(ask())
    await model.aclose()
    assert "gateway-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "problem"),
    [({"x-key": "$NOT_SET"}, "NOT_SET is not set"), ({"x-key": "ключ"}, "not valid"), ({"x-ключ": "a"}, "not valid")],
)
async def test_a_header_that_cannot_be_sent_is_one_clear_error(
    chat_server: ChatServer, headers: dict[str, str], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem) as caught:
        await OpenAICompatible("m", chat_server.url, headers=headers).chat(ask())
    assert "ключ" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"extra_body": {"messages": []}}, "extra_body sets 'messages'"),
        ({"model": " "}, "no name"),
        ({"timeout": 0}, "timeout is 0"),
        ({"base_url": "localhost:8000/v1"}, "not a web address"),
        ({"base_url": "ftp://host/v1"}, "not a web address"),
        ({"base_url": "http://"}, "not a web address"),
        ({"base_url": "http://host:port/v1"}, "not a web address"),
        ({"api_key": "sk-ключ"}, "API key"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        OpenAICompatible(**{"model": "m", **settings})
    assert "ключ" not in str(caught.value)
