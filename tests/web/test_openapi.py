"""The OpenAPI document: whatever it allows is answered as it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from beliefrag.web.http import HttpContext, create_app
from beliefrag.web.limits import ServerLimits
from beliefrag.web.service import AnswerService
from tests.support.serving import ANSWER, QUESTION, REPLY, SURE, Served, opened

CHECKS: Any = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OPERATIONS = [
    ("POST", "/v1/ask"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
]


def app_of(folder: Path, **how: Any) -> FastAPI:
    more = [{"purpose": "standalone", "reply": QUESTION, "repeat": True}]
    more += [{"purpose": "write", "reply": f"It is {ANSWER}.", "repeat": True}]
    assembly, chosen = opened(folder, SURE, REPLY, *more)
    service = AnswerService(assembly, chosen, ServerLimits())
    return create_app(HttpContext(service), **how)


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [(method, path, GenerationMode.POSITIVE) for method, path in OPERATIONS]
    + [(method, path, GenerationMode.NEGATIVE) for method, path in OPERATIONS if method == "POST"],
)
def test_whatever_is_sent_is_answered_as_the_document_says(
    plain: Served, method: str, path: str, mode: GenerationMode
) -> None:
    with plain.client() as client:
        document = client.get("/openapi.json").json()
    operation = schemathesis.openapi.from_dict(document)[path][method]
    seen = set()

    @settings(
        max_examples=20 if operation.body else 5,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), stream=st.booleans())
    def play(case: Any, stream: bool) -> None:
        headers = {"Accept": "text/event-stream"} if stream else {}
        response = case.call(base_url=plain.url, headers=headers)
        case.validate_response(response, checks=CHECKS)
        seen.add(response.status_code)

    play()
    assert max(seen) < 500
    if mode is GenerationMode.POSITIVE and path == "/v1/ask":
        assert 200 in seen, "nothing was answered, so nothing was tried"


def test_the_document_says_where_the_token_is_needed(tmp_path: Path) -> None:
    document = app_of(tmp_path, token="a-token-of-some-length").openapi()
    secured = {path for path, methods in document["paths"].items() for each in methods.values() if "security" in each}
    assert secured == {"/v1/ask", "/v1/chat/completions", "/v1/models", "/v1/search"}
    assert set(document["paths"]["/v1/ask"]["post"]["responses"]) == {"200", "default"}
    assert "security" not in str(app_of(tmp_path).openapi())
