"""Which verifier form a run has: lean reads its own draft, by token probabilities where the model reports them."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag.opening import choose_verifier
from beliefrag.settings import Settings
from tests.support.http_server import ChatServer, completion

EMBEDDED = "local:qwen2.5-coder-1.5b"
SERVED = "openai:some-model"


@pytest.mark.parametrize(("model", "form"), [(EMBEDDED, "draft"), (SERVED, "stated"), ("scripted:x.jsonl", "stated")])
@pytest.mark.parametrize("method", ["lean", "lean_survey", "lean_reads"])
def test_lean_reads_token_probabilities_only_of_a_model_that_reports_them(model: str, form: str, method: str) -> None:
    assert choose_verifier(Settings(model=model), method) == form


def test_a_server_is_asked_once_whether_it_gives_token_probabilities(
    chat_server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path))
    with_tokens = Settings(model="some-model", base_url=chat_server.url)
    alternatives = [{"token": "yes", "logprob": -0.1}]
    content = [{"token": "yes", "logprob": -0.1, "top_logprobs": alternatives}]
    chat_server.play(completion("yes", logprobs={"content": content}))
    assert choose_verifier(with_tokens, "lean", replay=True) == "stated", "not known, and nobody is asked"
    assert choose_verifier(with_tokens, "beliefrag") == "structured"
    assert chat_server.requests == []
    assert {choose_verifier(with_tokens, "lean") for _ in range(3)} == {"draft"}
    assert choose_verifier(with_tokens, "lean", replay=True) == "draft", "recorded"
    assert [request.body["max_tokens"] for request in chat_server.requests] == [1]
    chat_server.play(completion("yes"))
    assert choose_verifier(Settings(model="another-model", base_url=chat_server.url), "lean") == "stated"


@pytest.mark.parametrize(
    ("asked_for", "form"),
    [("draft", "draft"), ("stated", "stated"), ("probability", "draft"), ("slots", "draft"), ("graded", "stated")],
)
def test_a_form_that_is_asked_for_says_whether_there_are_token_probabilities(asked_for: str, form: str) -> None:
    for model in (EMBEDDED, SERVED):
        assert choose_verifier(Settings(model=model, verifier=asked_for), "lean") == form


def test_the_paper_profile_takes_the_form_of_the_model() -> None:
    assert choose_verifier(Settings(model=EMBEDDED), "beliefrag") == "slots"
    assert choose_verifier(Settings(model=SERVED), "beliefrag") == "structured"
    assert choose_verifier(Settings(model=SERVED, verifier="graded"), "beliefrag") == "graded"
