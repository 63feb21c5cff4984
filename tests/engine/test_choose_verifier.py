"""Which verifier form a run has: lean reads its own draft, by token probabilities where the model reports them."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag.engine import loop
from beliefrag.opening import assemble, choose_verifier
from beliefrag.settings import Settings
from beliefrag.types import Passage, Question
from tests.support.episodes import script
from tests.support.reading import calls, says

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


async def test_an_episode_of_lean_with_a_model_without_token_probabilities_is_one_stated_read(tmp_path: Path) -> None:
    script(tmp_path, says("read", {"missing": "nothing", "answer": "Torsby", "sure": 10}))
    settings = Settings(
        model=f"scripted:{tmp_path / 'script.jsonl'}", method="lean", borrow="qwen2.5-coder-1.5b-lean", cache=False
    )
    assembly = assemble(settings, passages=[Passage("h", "Ada Holm", "Ada Holm was born in Torsby.")])
    assert assembly.parts.verifier.name == "stated"
    question = Question("Where was Ada Holm born?")
    result = await loop.play(question, assembly.method, assembly.harness)
    await assembly.aclose()
    assert result.outcome == "answered" and result.answer == "Torsby"
    assert calls(result) == {"read": 1}
    measured = result.steps[-1].diagnostics
    assert measured and measured.uncertainty == 0.0, "10 of 10 is what the model stated"
