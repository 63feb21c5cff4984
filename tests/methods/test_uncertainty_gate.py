from pathlib import Path
from typing import Any

import pytest

from beliefrag.methods.uncertainty_gate import UncertaintyGate
from beliefrag.types import Budget
from tests.support.episodes import PlannedRetriever, PricedModel, hits, play, script
from tests.support.messages import mentions
from tests.support.reading import calls, prompts, says, why


def own_answer(first: float, second: float) -> dict[str, object]:
    return says("gate", "New York", logprobs=[{"token": "New", "p": first}, {"token": " York", "p": second}])


SILENCE = says("gate", "...", logprobs={"...": 1.0}, repeat=True)


@pytest.mark.parametrize(
    ("reply", "sure", "queries", "used", "answer"),
    [
        (own_answer(0.9, 0.9), 0.5, [], {"gate": 1}, "New York"),
        (own_answer(0.6, 0.6), 0.5, ["Which?"], {"gate": 1, "answer": 1}, "Albany"),
        # The threshold is on the product of the tokens.
        (own_answer(0.6, 0.6), 0.35, [], {"gate": 1}, "New York"),
        (own_answer(0.6, 0.6), 0.37, ["Which?"], {"gate": 1, "answer": 1}, "Albany"),
        # An answer that cannot be read is not a sure one.
        (SILENCE, 0.5, ["Which?"], {"gate": 2, "answer": 1}, "Albany"),
    ],
)
async def test_a_sure_answer_is_given_closed_book_and_another_is_put_aside_for_one_search(
    tmp_path: Path, reply: dict[str, Any], sure: float, queries: list[str], used: dict[str, int], answer: str
) -> None:
    retriever = PlannedRetriever(hits("a"))
    model = script(tmp_path, reply, says("answer", "Albany"))
    result = await play(model, retriever, method=UncertaintyGate(sure=sure))
    assert (result.outcome, result.answer, retriever.queries, calls(result)) == ("answered", answer, queries, used)
    assert prompts(result, "gate")[0].startswith("(no passages)")
    if queries == [] and sure == 0.5:
        assert mentions(why(result), "answer probability 0.81", "is at least 0.50")


async def test_tokens_spent_on_the_gate_leave_its_answer_at_no_further_cost(tmp_path: Path) -> None:
    model = PricedModel(script(tmp_path, own_answer(0.1, 0.1)), gate=2_000)
    result = await play(model, PlannedRetriever(hits("a")), method=UncertaintyGate(), budget=Budget(tokens=1_000))
    assert result.answer == "New York"
    assert calls(result) == {"gate": 1}
