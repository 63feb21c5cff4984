from __future__ import annotations

import gzip
import json
import time
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from beliefrag.errors import BeliefRAGError, ModelError, ReplyError, SettingsError, TransportError
from beliefrag.models.failures import EmptyReplyError, connection_error
from beliefrag.models.openai_compatible import OpenAICompatible
from tests.support.chat import ask
from tests.support.http_server import ChatServer, Response, completion, failure
from tests.support.messages import mentions

KEY = "sk-very-secret-key-123456"


@pytest.fixture
async def model(chat_server: ChatServer) -> AsyncIterator[OpenAICompatible]:
    model = OpenAICompatible("m", chat_server.url, KEY, timeout=5)
    yield model
    await model.aclose()


async def failed(model: OpenAICompatible, **fields: Any) -> BeliefRAGError:
    with pytest.raises(BeliefRAGError) as caught:
        await model.chat(ask(**fields))
    error = caught.value
    assert "\n" not in str(error)
    assert error.remedy
    assert KEY not in str(error)
    return error


async def test_a_server_that_is_down_from_the_start_is_reported_at_once(
    chat_server: ChatServer, model: OpenAICompatible
) -> None:
    chat_server.stop()
    error = await failed(model)
    assert isinstance(error, TransportError)
    assert mentions(error.message, chat_server.url, "refused")
    assert not error.retryable


async def test_a_server_that_went_down_may_come_back(chat_server: ChatServer, model: OpenAICompatible) -> None:
    await model.chat(ask())
    chat_server.stop()
    error = await failed(model)
    assert isinstance(error, TransportError)
    assert error.retryable


def test_a_host_that_refuses_on_all_its_addresses_is_the_same_error() -> None:
    error = OSError("All connection attempts failed")
    error.__cause__ = ExceptionGroup("several", [OSError("unreachable"), ConnectionRefusedError(111, "refused")])
    assert connection_error(error, server="it", reached=True).message == "it refused the connection."


@pytest.mark.parametrize("proxy", ["socks5://me:hunter2@proxy:1", "odd://me:hunter2@proxy:1"])
async def test_a_proxy_that_cannot_be_used_is_a_matter_of_settings(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    error = await failed(OpenAICompatible("m", chat_server.url))
    assert isinstance(error, SettingsError)
    assert "ALL_PROXY" in error.remedy
    assert "hunter2" not in error.message


@pytest.mark.parametrize("slow", [{"delay": 30.0}, {"drip": 0.05}])
async def test_a_slow_server_runs_into_the_timeout(chat_server: ChatServer, slow: dict[str, Any]) -> None:
    model = OpenAICompatible("m", chat_server.url, timeout=0.3)
    chat_server.play(completion(**slow))
    started = time.monotonic()
    error = await failed(model)
    await model.aclose()
    assert isinstance(error, TransportError)
    assert "within 0.3 s" in error.message
    assert error.retryable
    assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    ("response", "says", "remedy", "retryable"),
    [
        (failure(401, "Incorrect API key"), "Incorrect API key.", "OPENAI_API_KEY", False),
        (failure(403, "No access"), "does not allow this", "key may use", False),
        (failure(404, "The model `m` does not exist"), "`m` does not exist", "/v1", False),
        (failure(400, "This model's maximum context length is 4096 tokens."), "too long", "fewer", False),
        (failure(400, "the request exceeds the available context size"), "too long", "fewer", False),
        (failure(400, "odd role"), "rejected the request (HTTP 400): odd role", "settings", False),
        (failure(408, ""), "gave up waiting", "timeout", True),
        (failure(413, ""), "too long", "fewer", False),
        (failure(429, "Slow down"), "too many requests", "concurrency", True),
        (failure(429, "Quota", code="insufficient_quota"), "quota is used up", "billing", False),
        (failure(500, "oops"), "failed (HTTP 500): oops", "log", True),
        (failure(501, ""), "failed (HTTP 501)", "log", False),
        (failure(503, "loading"), "loading", "log", True),
        (Response(b"<html><h1>Bad gateway</h1>", 502, content_type="text/html"), "failed (HTTP 502)", "log", True),
        (Response(b'{"error": "model not found"}', 404), "model not found", "name", False),
        (Response(b'{"detail": "Not Found"}', 404), "Not Found", "/v1", False),
        (Response(b"\x00\xff\x1b[31m bad\r\nline", 500, content_type="text/plain"), "[31m bad line", "log", True),
    ],
)
async def test_each_status_is_one_clear_error(
    chat_server: ChatServer, model: OpenAICompatible, response: Response, says: str, remedy: str, retryable: bool
) -> None:
    chat_server.play(response)
    error = await failed(model)
    assert isinstance(error, TransportError)
    assert error.message.startswith(chat_server.url)
    assert says in error.message
    assert remedy in error.remedy
    assert (error.status, error.retryable) == (response.status, retryable)
    assert error.message.isprintable()
    assert "<" not in error.message
    assert len(chat_server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({}, None),
    ],
)
async def test_the_wait_that_a_server_asks_for_is_read(
    chat_server: ChatServer, model: OpenAICompatible, headers: dict[str, str], seconds: float | None
) -> None:
    chat_server.play(failure(429, "Slow down", **headers))
    error = await failed(model)
    assert isinstance(error, TransportError)
    assert error.retry_after == seconds
    if seconds:
        assert mentions(error.message, f"wait {seconds:g} s", "HTTP 429")


@pytest.mark.parametrize(
    ("body", "says", "retryable"),
    [
        (b"<!doctype html><title>Log in</title>", "a web page", False),
        (b"OK", "not JSON", False),
        (b"", "not JSON", False),
        (b'{"choices": [{"message": {"con', "not JSON", True),
    ],
)
async def test_a_body_that_is_no_completion_is_an_error(
    chat_server: ChatServer, model: OpenAICompatible, body: bytes, says: str, retryable: bool
) -> None:
    chat_server.play(Response(body))
    error = await failed(model)
    assert isinstance(error, TransportError)
    assert says in error.message
    assert error.retryable is retryable


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "without choices"),
        ({"choices": []}, "without choices"),
        ({"choices": None}, "without choices"),
        ([], "not a chat completion"),
        ({"choices": [{"text": "a completion of the older kind"}]}, "not a chat completion"),
        ({"error": {"message": "no such engine", "code": "x"}}, "no such engine"),
        ({"error": "no such engine"}, "no such engine"),
    ],
)
async def test_json_that_is_no_completion_is_an_error(
    chat_server: ChatServer, model: OpenAICompatible, body: Any, says: str
) -> None:
    chat_server.play(Response(json.dumps(body).encode()))
    error = await failed(model)
    assert isinstance(error, ReplyError)
    assert says in error.message


async def test_an_error_that_comes_with_status_200_keeps_its_own(
    chat_server: ChatServer, model: OpenAICompatible
) -> None:
    chat_server.play(Response(json.dumps({"error": {"message": "upstream busy", "code": 429}}).encode()))
    error = await failed(model)
    assert isinstance(error, TransportError)
    assert (error.status, error.retryable) == (429, True)


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (completion(None, message={"refusal": "I cannot\nhelp"}), "The model refused: I cannot help"),
        (completion("", finish="content_filter"), "filtered"),
    ],
)
async def test_a_refusal_is_an_error_and_not_worth_a_second_try(
    chat_server: ChatServer, model: OpenAICompatible, response: Response, says: str
) -> None:
    chat_server.play(response)
    error = await failed(model)
    assert isinstance(error, ReplyError)
    assert not isinstance(error, EmptyReplyError)
    assert says in error.message


@pytest.mark.parametrize(
    "response",
    [
        failure(401, f"Incorrect API key provided: {KEY}."),
        failure(500, f"header Authorization: Bearer {KEY}"),
        Response(f"you sent {KEY}".encode()),
        Response(json.dumps({"error": {"message": f"bad {KEY}"}}).encode()),
        completion(None, message={"refusal": f"I will not repeat {KEY}"}),
    ],
)
async def test_a_key_that_a_server_repeats_is_blotted_out(
    chat_server: ChatServer, model: OpenAICompatible, response: Response
) -> None:
    chat_server.play(response)
    error = await failed(model)
    assert "***" in error.message
    assert KEY not in "".join(traceback.format_exception(error))


async def test_a_password_in_the_base_url_reaches_no_error(chat_server: ChatServer) -> None:
    model = OpenAICompatible("m", f"http://me:hunter2@{chat_server.host}/v1?sig=abcdefgh")
    for response in (failure(500, "hunter2 abcdefgh"), Response(close=True), Response(b"hunter2 abcdefgh")):
        chat_server.play(response)
        error = await failed(model)
        assert "hunter2" not in str(error)
        assert "abcdefgh" not in str(error)
    await model.aclose()


async def test_half_of_a_surrogate_pair_in_a_reply_is_read_as_a_question_mark(
    chat_server: ChatServer, model: OpenAICompatible
) -> None:
    event = b'data: {"choices": [{"delta": {"content": "Par\\ud800is"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    for body, on_text in ((completion("Par\ud800is").body, None), (event, print)):
        chat_server.play(Response(body))
        assert (await model.chat(ask(on_text=on_text))).text == "Par?is"
    assert len(chat_server.requests) == 2


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_second_reply_to_one_call_does_not_answer_the_next(
    chat_server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encrypted: bool
) -> None:
    if encrypted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        chat_server.use_tls(tmp_path / "certificate.pem")
    model = OpenAICompatible("m", chat_server.url, KEY, timeout=5)
    body = completion("Berlin").body
    surplus = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    chat_server.play(completion("Paris", surplus=surplus), completion("Rome"))
    assert [(await model.chat(ask(country))).text for country in ("France?", "Italy?")] == ["Paris", "Rome"]
    await model.aclose()


async def test_text_that_is_no_unicode_is_an_error_of_the_request(model: OpenAICompatible) -> None:
    with pytest.raises(ModelError, match="not valid Unicode"):
        await model.chat(ask("half a \ud83d face"))


LONG = b" " * 24_000_000
"""It is sent without its last byte: whoever reads to the end finds a broken connection."""


@pytest.mark.parametrize("packed", [False, True])
async def test_a_body_longer_than_any_reply_to_the_request_is_not_read_to_its_end(
    chat_server: ChatServer, model: OpenAICompatible, packed: bool
) -> None:
    headers = {"Content-Encoding": "gzip"} if packed else {}
    chat_server.play(Response(gzip.compress(LONG, 1) if packed else LONG, headers=headers, cut=1))
    error = await failed(model, max_tokens=1)
    assert isinstance(error, TransportError)
    assert "1,048,832 bytes" in error.message
    assert not error.retryable


async def test_of_a_long_error_the_beginning_is_read(chat_server: ChatServer, model: OpenAICompatible) -> None:
    chat_server.play(Response(b"it broke " + LONG, status=500, cut=1))
    error = await failed(model)
    assert isinstance(error, TransportError)
    assert (error.status, error.retryable) == (500, True)
    assert "it broke" in error.message


async def test_the_body_of_a_redirect_is_not_read(chat_server: ChatServer, model: OpenAICompatible) -> None:
    elsewhere = {"Location": chat_server.url + "/chat/completions"}
    chat_server.play(Response(LONG, status=307, headers=elsewhere, cut=1), completion())
    assert (await model.chat(ask())).text == "Paris"
