"""The promise of `make demo`: the embedded model answers the two-hop question, with its belief at each step."""

import pytest

from beliefrag.demo import load_questions
from beliefrag.errors import BeliefRAGError
from beliefrag.models.weights import DEFAULT, find, is_present
from tests.cli.shell import in_shell


@pytest.mark.weights
def test_the_demo_answers_its_two_hop_question_with_the_embedded_model() -> None:
    weights = find(DEFAULT)
    if not is_present(weights):
        from beliefrag.models.weights.download import pull

        try:
            pull(weights.name)
        except BeliefRAGError as error:
            pytest.skip(f"the weights of {weights.name} cannot be pulled here: {error.message}")
    ran = in_shell("demo", "--yes", "--no-cache", timeout_seconds=900)
    question = load_questions()[0]
    assert ran.code == 0, ran.err
    assert f"answer: {question.answers[0]}" in ran.out
    for said in ("likely right", "searched:", "stopped:", "changes it:", "cost:"):
        assert said in ran.out
