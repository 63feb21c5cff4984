"""Which verifier form a run has: lean reads its own draft, by token probabilities where the model reports them."""

from __future__ import annotations

import pytest

from beliefrag.opening import choose_verifier
from beliefrag.settings import Settings

EMBEDDED = "local:qwen2.5-coder-1.5b"
SERVED = "openai:some-model"


@pytest.mark.parametrize(("model", "form"), [(EMBEDDED, "draft"), (SERVED, "stated"), ("scripted:x.jsonl", "stated")])
@pytest.mark.parametrize("method", ["lean", "lean_survey", "lean_reads"])
def test_lean_reads_token_probabilities_only_of_a_model_that_reports_them(model: str, form: str, method: str) -> None:
    assert choose_verifier(Settings(model=model), method) == form


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
