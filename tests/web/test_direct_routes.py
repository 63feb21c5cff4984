"""The short way to the handlers of questions: valid bodies take it, and everything else goes through FastAPI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from beliefrag.policy import Thresholds
from beliefrag.web.answers import AnswerBody
from beliefrag.web.http.direct import DirectRoutes
from tests.support.serving import ANSWER, QUERY, QUESTION, REPLY, UNSURE, Served, opened, served

ASKED: dict[str, dict[str, Any]] = {
    "/v1/ask": {"question": QUESTION},
    "/v1/chat/completions": {"model": "beliefrag", "messages": [{"role": "user", "content": QUESTION}]},
    "/v1/responses": {"model": "beliefrag", "input": QUESTION},
}


@pytest.mark.parametrize("path", ASKED)
def test_a_question_takes_the_short_way(plain: Served, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    async def long_way(self: Any, scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("FastAPI was asked")

    monkeypatch.setattr(APIRoute, "handle", long_way)
    with plain.client() as client:
        response = client.post(path, json=ASKED[path])
    assert response.status_code == 200
    assert ANSWER in response.text


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{", "application/json"),
        (b"", "application/json"),
        (b'{"question": 1, "model": 2}', "application/json"),
        (b"[" * 10_000, "application/json"),
        (b"null", "application/json"),
        (b"\xff\xfe{", "application/json"),
        (json.dumps({"question": QUESTION}).encode(), "text/plain"),
    ],
)
def test_a_body_that_is_not_valid_is_refused_as_fastapi_refuses_it(
    plain: Served, monkeypatch: pytest.MonkeyPatch, path: str, body: bytes, kind: str
) -> None:
    def send() -> tuple[int, dict[str, Any]]:
        with plain.client() as client:
            response = client.post(path, content=body, headers={"Content-Type": kind, "X-Request-ID": "one"})
            return response.status_code, response.json()

    refused = send()
    assert refused[0] in (400, 422)

    async def without_short_way(self: DirectRoutes, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    monkeypatch.setattr(DirectRoutes, "__call__", without_short_way)
    assert send() == refused


def test_a_problem_on_the_short_way_is_the_same_document(plain: Served) -> None:
    response = plain.ask("  ")
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "urn:beliefrag:empty_question"


def test_the_answer_has_exactly_the_documented_fields(plain: Served, tmp_path: Path) -> None:
    declining = Thresholds(abstain_sufficiency=1.0, abstain_uncertainty=0.0, abstain_answerability=1.0)
    with served(*opened(tmp_path, UNSURE, QUERY, REPLY, thresholds=declining)) as server:
        declined = server.ask("Who approves travel to Zanzibar?").json()
    assert declined["outcome"] == "abstained" and "Zanzibar" in declined["missing"]
    for reply in (plain.ask().json(), declined):
        assert AnswerBody.model_validate(reply).model_dump() == reply
        assert list(reply) == list(AnswerBody.model_fields)
