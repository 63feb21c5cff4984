"""lean: the paper's controller under the default profile."""

from pathlib import Path
from typing import Any

import pytest

from beliefrag.methods import MethodInputs, build_method
from beliefrag.methods.beliefrag import BeliefRAGMethod
from beliefrag.methods.state_collector import collect_states
from beliefrag.policy import Calibration, LogisticAnswerability, ScheduledValue, ScoreScale, Thresholds
from beliefrag.settings import PROFILES
from beliefrag.types import Budget, Diagnostics, Hit, Passage
from tests.support.episodes import PlannedRetriever, hits, play, script
from tests.support.reading import actions, calls, says

SCALE = ScoreScale(20.0, 8.0)
# p_ans is 0.95 where the draft was certain, 0.5 at uncertainty 0.5, 0.05 where nothing spoke for it.
BY_UNCERTAINTY = LogisticAnswerability(3.0, Diagnostics(0.0, 0.0, 0.0, -6.0, 0.0, 0.0, 0.0))
WORTH = ScheduledValue({0: 0.6, 1: 0.6, 2: 0.05})


PAPER = ScheduledValue()


def lean(value: ScheduledValue = PAPER, **thresholds: Any) -> BeliefRAGMethod:
    chosen = PROFILES["default"].apply_to(Thresholds(**{"abstain": False} | thresholds))
    method = build_method("lean", MethodInputs(Calibration(SCALE, BY_UNCERTAINTY, value), chosen))
    assert isinstance(method, BeliefRAGMethod) and method.name == "lean"
    return method


def read(answer: str, p: float) -> dict[str, Any]:
    return says("read", answer, logprobs={answer: p})


def stated(answer: str, sure: int, missing: str = "nothing") -> dict[str, Any]:
    return says("read", {"missing": missing, "answer": answer, "sure": sure})


def searches() -> PlannedRetriever:
    return PlannedRetriever(hits("a", "b"), hits("c", "d"), hits("e", "f"))


async def test_a_sure_first_read_is_the_answer_and_the_only_call(tmp_path: Path) -> None:
    result = await play(script(tmp_path, read("Paris", 0.95)), searches(), method=lean(), verifier="draft")
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert result.answer == "Paris" and result.outcome == "answered"
    assert calls(result) == {"read": 1}
    assert result.answerability == pytest.approx(0.937, abs=0.001)


async def test_an_unsure_read_is_the_answer_where_another_search_is_not_worth_it(tmp_path: Path) -> None:
    result = await play(script(tmp_path, read("Paris", 0.3)), searches(), method=lean(), verifier="draft")
    assert actions(result) == ["RETRIEVE", "STOP"]
    assert result.answer == "Paris" and result.outcome == "stopped"
    assert calls(result) == {"read": 1}, "the paper's schedule gives a second search 0.073"


async def test_a_search_that_is_worth_it_is_read_anew_and_its_query_is_the_models(tmp_path: Path) -> None:
    model = script(tmp_path, read("Paris", 0.3), read("Oslo", 0.9), says("query_writer", "the next query"))
    retriever = searches()
    result = await play(model, retriever, method=lean(WORTH), verifier="draft")
    assert actions(result) == ["RETRIEVE", "RETRIEVE", "ANSWER"]
    assert retriever.queries[1] == "the next query"
    assert result.answer == "Oslo"


async def test_there_is_no_search_beyond_the_budget(tmp_path: Path) -> None:
    lines = [read("Paris", 0.3), read("Bonn", 0.3), says("query_writer", "next", repeat=True)]
    for budget in (Budget(actions=2), Budget(tokens=1), Budget(rounds=1)):
        method = lean(ScheduledValue({0: 0.6}))
        result = await play(script(tmp_path, *lines), searches(), method=method, budget=budget, verifier="draft")
        assert actions(result) == ["RETRIEVE", "STOP"]


async def test_evidence_in_conflict_starts_no_correction(tmp_path: Path) -> None:
    rival = says("read", "alphaa", logprobs={"alphaa": 0.55, "alphab": 0.45})
    result = await play(script(tmp_path, rival), searches(), method=lean(conflict=0.01), verifier="draft")
    assert actions(result) == ["RETRIEVE", "STOP"]


async def test_a_model_without_token_probabilities_is_asked_how_sure_it_is(tmp_path: Path) -> None:
    sure = await play(script(tmp_path, stated("Paris", 9)), searches(), method=lean(), verifier="stated")
    assert sure.outcome == "answered" and sure.answer == "Paris"
    assert sure.answerability == pytest.approx(0.917, abs=0.001), "uncertainty is 1 - 9/10"


async def test_the_survey_searches_to_the_end_and_has_an_answer_at_each_state(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        says("answer", "Bergen"),
        *(read(name, 0.9) for name in ("Paris", "Rome", "Oslo")),
        says("query_writer", "two"),
        says("query_writer", "three"),
    )
    collector = collect_states("lean_survey", SCALE, MethodInputs())
    result = await play(model, searches(), method=collector, verifier="draft")
    assert actions(result) == ["RETRIEVE", "RETRIEVE", "RETRIEVE", "STOP"]
    attempts = [step.attempt and step.attempt.answer for step in result.steps]
    assert attempts == ["Bergen", "Paris", "Rome", "Oslo"]


async def test_the_survey_of_first_reads_reads_once(tmp_path: Path) -> None:
    collector = collect_states("lean_reads", SCALE, MethodInputs())
    result = await play(script(tmp_path, read("Paris", 0.2)), searches(), method=collector, verifier="draft")
    assert (actions(result), result.answer, calls(result)) == (["RETRIEVE", "STOP"], "Paris", {"read": 1})


async def test_evidence_is_read_as_it_is_shown(tmp_path: Path) -> None:
    long = " ".join(f"Filler number {place} says little." for place in range(60))
    passage = Passage("x", "Ada Holm", f"{long} Ada Holm was born in Torsby.")
    model = script(tmp_path, read("Torsby", 0.95))
    result = await play(
        model,
        PlannedRetriever([Hit(passage, 20.0)]),
        method=lean(),
        pack=40,
        question="Where was Ada Holm born?",
        verifier="draft",
    )
    assert result.answer == "Torsby"
    assert result.usage.tokens < 400
