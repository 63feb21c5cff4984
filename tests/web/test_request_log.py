"""The log: everything that an operator needs, and neither texts nor credentials."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beliefrag.web.request_log import json_log, mask_credentials
from tests.support.serving import ANSWER, PASSAGES, QUESTION, SURE, Served, opened, served, wait_for

TOKEN = "t0ken-that-nobody-guesses"
SECRETS = [QUESTION, ANSWER, TOKEN, "s3cret-of-a-client", *(passage.text for passage in PASSAGES), "/srv/secret"]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    with json_log(stream):
        yield stream


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def ask(server: Served, **headers: str) -> Any:
    return server.ask(headers={"Authorization": f"Bearer {TOKEN}", "Cookie": "s3cret-of-a-client", **headers})


def test_each_request_leaves_one_line_with_its_cost_and_no_text(tmp_path: Path, log: io.StringIO) -> None:
    broken = {"purpose": "answer", "error": {"status": 400, "message": QUESTION}, "repeat": True}
    once = {"purpose": "answer", "reply": ANSWER}
    with served(*opened(tmp_path, SURE, once, broken), token=TOKEN) as server, server.client() as client:
        answered = ask(server, **{"X-Request-ID": "client-1"})
        failed = ask(server, Accept="text/event-stream")
        client.get(f"/v1/{TOKEN}?q=s3cret-of-a-client", headers={"Authorization": f"Bearer {TOKEN}"})
        client.post("/v1/ask", json={"question": QUESTION})
        wait_for(lambda: len(lines(log)) >= 4)
    first, second, third, fourth = (line for line in lines(log) if line["event"] == "request")
    assert answered.headers["x-request-id"] == first["request_id"] == "client-1"
    assert {name: first[name] for name in ("method", "route", "status", "outcome", "calls")} == {
        "method": "POST",
        "route": "/v1/ask",
        "status": 200,
        "outcome": "answered",
        "calls": 2,
    }
    assert first["tokens_in"] > 0 and first["tokens_out"] > 0 and first["ms"] > 0 and first["answerability"] > 0.5
    assert (second["outcome"], second["cause"]) == ("failed", "TransportError")
    assert failed.status_code == 200, "the status was sent before the failure"
    assert (third["route"], third["status"]) == ("none", 404)
    assert (fourth["status"], fourth["refused"]) == (401, "unauthorised")
    for secret in SECRETS:
        assert secret not in log.getvalue()


@pytest.mark.parametrize("given", ["x" * 65, "two words", 'quote"', "ümlaut".encode().decode("latin-1")])
def test_a_request_id_of_odd_characters_is_replaced(plain: Served, given: str) -> None:
    with plain.client() as client:
        answer = client.get("/healthz", headers=[(b"X-Request-ID", given.encode("latin-1"))])
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])


def test_an_unforeseen_error_is_a_500_without_its_message(
    tmp_path: Path, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any) -> None:
        raise ZeroDivisionError(QUESTION)

    monkeypatch.setattr("beliefrag.web.http.http_app.assembly_for_request", breaks)
    with served(*opened(tmp_path)) as server:
        response = server.ask()
        wait_for(lambda: len(lines(log)) >= 2)
        assert server.service.admission.in_flight == 0
    assert response.status_code == 500
    assert response.json()["detail"] == "Internal error, ZeroDivisionError."
    assert QUESTION not in log.getvalue() + response.text
    assert {line["level"] for line in lines(log)[:2]} == {"error", "info"}


SAID = "upstream 10.1.2.3 says: Incorrect API key provided: sk-proj-abc***wxyz for tenant blue"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("cannot reach https://anna:s3cret@models.example/v1", "s3cret"),
        ("cannot reach https://onlyakey@models.example/v1", "onlyakey"),
        ("header was Authorization: Basic YW5uYTpzM2NyZXQ=", "YW5uYTpzM2NyZXQ="),
        ("sent 'Bearer abc.def.ghi' to it", "abc.def.ghi"),
        ("Incorrect API key provided: sk-proj-abc***wxyz. Find yours", "abc***wxyz"),
        ("Incorrect API key provided: sk-1234. Find yours", "1234"),
        ('{"api_key": "k1", "model": "m"}', "k1"),
        ("?api_key=0123abc&x=1", "0123abc"),
        ("x-api-key: swordfish", "swordfish"),
        ("password=hunter2; retry", "hunter2"),
        ("token 'hf_abcdefghijkl' is not known", "abcdefghijkl"),
        ("AKIAIOSFODNN7EXAMPLE was rejected", "IOSFODNN7"),
        ("the key AIzaSyA1234567890abcdefghij is blocked", "SyA1234567890"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl expired", "c2lnbmF0dXJl"),
        ("unknown credential 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "9f86d081884c7d65"),
    ],
)
def test_credentials_of_every_form_are_masked(text: str, secret: str) -> None:
    masked = mask_credentials(text)
    assert secret not in masked and "***" in masked


@pytest.mark.parametrize(
    "text",
    [
        "models.example/v1 is asked too often and asks to wait 2 s (HTTP 429)",
        "models.example has no such model (HTTP 404): meta-llama/Llama-3.1-8B-Instruct",
        "The reply had 4096 tokens and was cut.",
    ],
)
def test_ordinary_messages_stay_as_they_are(text: str) -> None:
    assert mask_credentials(text) == text


def test_a_long_message_is_cut_and_masked_at_once() -> None:
    for text in ("key " * 50_000, "a1" * 100_000, "://" * 50_000, "eyJ" + "a." * 50_000, "token" + " " * 100_000):
        began = time.perf_counter()
        assert len(mask_credentials(text)) <= 2_000
        assert time.perf_counter() - began < 1.0


def test_what_the_models_server_said_is_in_the_log_and_not_in_the_reply(tmp_path: Path, log: io.StringIO) -> None:
    refusal = {"purpose": "verifier", "error": {"status": 401, "message": SAID}, "repeat": True}
    with served(*opened(tmp_path, refusal)) as server, server.client() as client:
        body = {"model": "beliefrag", "messages": [{"role": "user", "content": QUESTION}]}
        replies = [
            server.ask(),
            server.ask(headers={"Accept": "text/event-stream"}),
            client.post("/v1/chat/completions", json=body),
            client.post("/v1/chat/completions", json={**body, "stream": True}),
        ]
    for reply in replies:
        assert "TransportError" in reply.text, "clients get the kind"
        for part in ("10.1.2.3", "upstream", "tenant", "sk-proj", "OPENAI_API_KEY"):
            assert part not in reply.text
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    errors = [line["error"] for line in lines if line["event"] == "request"]
    assert len(errors) == len(replies)
    assert all("upstream 10.1.2.3 says" in error and "abc***wxyz" not in error for error in errors)


def test_a_server_that_quotes_question_or_passages_puts_neither_in_the_log(tmp_path: Path, log: io.StringIO) -> None:
    quoting = f"cannot read: {QUESTION} in <doc> {PASSAGES[0].text[:40]}"
    refusal = {"purpose": "verifier", "error": {"status": 400, "message": quoting}, "repeat": True}
    with served(*opened(tmp_path, refusal)) as server:
        server.ask()
    (line,) = [json.loads(line) for line in log.getvalue().splitlines() if '"request"' in line]
    assert "cannot read" in line["error"]
    assert QUESTION not in line["error"] and PASSAGES[0].text[:30] not in line["error"]
