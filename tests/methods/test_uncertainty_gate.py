from pathlib import Path

import pytest

from beliefrag.methods.uncertainty_gate import UncertaintyGate
from beliefrag.types import Budget
from tests.support.episodes import PlannedRetriever, PricedModel, hits, play, script
from tests.support.messages import mentions
from tests.support.reading import actions, calls, prompts, says, why


def own_answer(first: float, second: float) -> dict[str, object]:
    return says("gate", "New York", logprobs=[{"token": "New", "p": first}, {"token": " York", "p": second}])


async def test_a_sure_answer_is_given_closed_book(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"))
    result = await play(script(tmp_path, own_answer(0.9, 0.9)), retriever, method=UncertaintyGate())
    assert result.outcome == "answered"
    assert result.answer == "New York"
    assert retriever.queries == []
    assert calls(result) == {"gate": 1}
    assert mentions(why(result), "answer probability 0.81", "is at least 0.50")
    assert prompts(result, "gate")[0].startswith("(no passages)")


async def test_an_unsure_answer_is_put_aside_for_one_search(tmp_path: Path) -> None:
    retriever = PlannedRetriever(hits("a"))
    model = script(tmp_path, own_answer(0.6, 0.6), says("answer", "Albany"))
    result = await play(model, retriever, method=UncertaintyGate())
    assert result.answer == "Albany"
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert retriever.queries == ["Which?"]
    assert calls(result) == {"gate": 1, "answer": 1}


@pytest.mark.parametrize(("threshold", "searches"), [(0.35, 0), (0.37, 1)])
async def test_the_threshold_is_on_the_product_of_the_tokens(tmp_path: Path, threshold: float, searches: int) -> None:
    model = script(tmp_path, own_answer(0.6, 0.6), says("answer", "Albany"))
    result = await play(model, PlannedRetriever(hits("a")), method=UncertaintyGate(sure=threshold))
    assert result.usage.searches == searches


async def test_an_answer_that_cannot_be_read_is_not_a_sure_one(tmp_path: Path) -> None:
    silence = says("gate", "...", logprobs={"...": 1.0}, repeat=True)
    model = script(tmp_path, silence, says("answer", "Albany"))
    result = await play(model, PlannedRetriever(hits("a")), method=UncertaintyGate())
    assert result.answer == "Albany"
    assert result.usage.searches == 1


async def test_tokens_spent_on_the_gate_leave_its_answer_at_no_further_cost(tmp_path: Path) -> None:
    model = PricedModel(script(tmp_path, own_answer(0.1, 0.1)), gate=2_000)
    result = await play(model, PlannedRetriever(hits("a")), method=UncertaintyGate(), budget=Budget(tokens=1_000))
    assert result.answer == "New York"
    assert calls(result) == {"gate": 1}
