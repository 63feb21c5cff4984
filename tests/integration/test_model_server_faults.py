"""A whole question against a real HTTP server that misbehaves: one clear outcome for each way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag import BeliefRAG, Passage
from beliefrag.record import Episode
from tests.support.http_server import ChatServer, Request, Response, completion, failure

PASSAGES = [Passage("fram", "Fram", "The Fram was designed by Colin Archer, who was born in Larvik.")]
VERDICT = json.dumps({"unhelpful_doc_ids": [], "support": 0.9, "conflict": 0.0, "gap": 0.0, "uncertainty": 0.1})


def well(request: Request) -> Response:
    return completion(VERDICT if "response_format" in request.body else "Larvik")


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chat_server: ChatServer) -> Callable[[], Episode]:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)

    def asked() -> Episode:
        with BeliefRAG(
            passages=PASSAGES, model="m", base_url=chat_server.url, borrow="published", timeout=1.0, retry_seconds=3.0
        ) as rag:
            return rag.ask("Where was the designer of the Fram born?")

    return asked


def failed(result: Episode, cause: str, *words: str) -> None:
    assert (result.outcome, result.cause, result.answer) == ("failed", cause, None)
    assert result.error is not None and "\n" not in result.message
    for word in words:
        assert word in f"{result.message} {result.error.remedy}"


def test_a_server_that_is_well_answers(ask: Callable[[], Episode], chat_server: ChatServer) -> None:
    chat_server.play(well)
    result = ask()
    assert result.outcome == "answered"
    assert result.answer == "Larvik"
    assert result.usage.calls == 2


def test_a_server_that_is_down_is_said_to_be_unreachable(ask: Callable[[], Episode], chat_server: ChatServer) -> None:
    chat_server.stop()
    failed(ask(), "TransportError", chat_server.host)


def test_a_server_that_is_too_slow_times_out(ask: Callable[[], Episode], chat_server: ChatServer) -> None:
    chat_server.play(completion(VERDICT, delay=30.0))
    failed(ask(), "TransportError", "1 s")


def test_a_server_that_is_busy_is_asked_again(ask: Callable[[], Episode], chat_server: ChatServer) -> None:
    chat_server.play(failure(429, "slow down", **{"Retry-After": "0"}), well)
    result = ask()
    assert result.outcome == "answered"
    assert result.usage.retries == 1
    assert result.usage.calls == 2


def test_what_was_paid_for_before_a_failure_is_not_paid_for_again(
    ask: Callable[[], Episode], chat_server: ChatServer
) -> None:
    chat_server.play(completion(VERDICT), failure(400, "no"))
    failed(ask(), "TransportError", "400")
    chat_server.play(well)
    result = ask()
    assert result.outcome == "answered"
    assert result.usage.cached_calls == 1
