import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.methods import MethodInputs
from beliefrag.methods.lean import Lean, LeanOptions, Move, build_lean
from beliefrag.methods.state_collector import collect_states
from beliefrag.outcome import Answered, Stopped
from beliefrag.policy import (
    Calibration,
    FittedValue,
    LogisticAnswerability,
    MoveValue,
    ScheduledValue,
    ScoreScale,
    Thresholds,
)
from beliefrag.types import Budget, Diagnostics, Hit, Passage
from beliefrag.verifiers.draft import Stated
from tests.support.episodes import PlannedRetriever, hits, play, script
from tests.support.messages import mentions
from tests.support.reading import actions, calls, says

SCALE = ScoreScale(20.0, 8.0)
# p_ans is 0.95 where the draft was certain, 0.5 at uncertainty 0.5, 0.05 where nothing spoke for it.
BY_UNCERTAINTY = LogisticAnswerability(3.0, Diagnostics(0.0, 0.0, 0.0, -6.0, 0.0, 0.0, 0.0))


def always(logit: float, tokens: float) -> MoveValue:
    return MoveValue(FittedValue(logit, 0.0, 0.0, 0.0), tokens)


def lean(values: Mapping[str, MoveValue] | None = None, **options: Any) -> Lean:
    values = values or {Move.REASON: always(0.0, 500), Move.SEARCH: always(0.4, 1100)}
    calibration = Calibration(SCALE, BY_UNCERTAINTY, ScheduledValue(), values)
    thresholds = options.pop("thresholds", Thresholds(abstain=False))
    verifier = options.pop("verifier", None)
    return build_lean(LeanOptions(**options), MethodInputs(calibration, thresholds, verifier=verifier))


def read(answer: str, p: float) -> dict[str, Any]:
    return says("read", answer, logprobs={answer: p})


def reasoned(answer: str, p: float) -> dict[str, Any]:
    tokens = [{"token": "Answer:", "p": 1.0}, {"token": f" {answer}", "p": p}]
    return says("reasoned_read", f"Answer: {answer}", logprobs=tokens)


def searches() -> PlannedRetriever:
    return PlannedRetriever(hits("a", "b"), hits("c", "d"), hits("e", "f"))


async def test_a_sure_first_read_is_the_answer_and_the_only_call(tmp_path: Path) -> None:
    result = await play(script(tmp_path, read("Paris", 0.95)), searches(), method=lean())
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert result.answer == "Paris" and isinstance(result.outcome, Answered)
    assert calls(result) == {"read": 1}
    assert result.answerability == pytest.approx(0.937, abs=0.001)


async def test_the_move_with_the_largest_value_per_token_comes_first_and_is_in_the_trace(tmp_path: Path) -> None:
    model = script(tmp_path, read("Paris", 0.3), reasoned("Rome", 0.95))
    result = await play(model, searches(), method=lean())
    assert actions(result) == ["RETRIEVE", "VERIFY", "ANSWER"]
    step = result.record()["steps"][1]
    assert step["branch"] == "reason" and "500 tokens" in step["reason"]
    assert [each["name"] for each in step["comparisons"]] == ["answerability", "value of the move reason"]
    assert step["evidence"] == ["a", "b"], "a reasoned read drops nothing"
    assert result.answer == "Rome"


async def test_a_search_is_read_anew_and_its_query_is_the_models(tmp_path: Path) -> None:
    model = script(tmp_path, read("Paris", 0.3), read("Oslo", 0.9), says("query_writer", "the next query"))
    retriever = searches()
    result = await play(model, retriever, method=lean({Move.SEARCH: always(0.0, 1100)}))
    assert actions(result) == ["RETRIEVE", "RETRIEVE", "ANSWER"]
    assert retriever.queries[1] == "the next query"
    assert result.answer == "Oslo"


async def test_a_move_of_an_older_calibration_that_lean_does_not_know_is_ignored(tmp_path: Path) -> None:
    shipped = load_artifact("qwen2.5-coder-1.5b-lean")
    fit = {"value": {"intercept": 5.0, "rounds": 0.0, "novelty": 0.0, "sufficiency": 0.0}, "tokens": 420.0}
    file = tmp_path / "older.json"
    file.write_text(json.dumps(shipped.model_dump(mode="json") | {"moves": {"follow": fit}}))
    values = load_artifact(str(file)).calibration(SCALE).moves
    assert set(values) == {"follow"} and not {"follow"} & set(Move)
    result = await play(script(tmp_path, read("Paris", 0.3)), searches(), method=lean(values))
    assert actions(result) == ["RETRIEVE", "STOP"] and calls(result) == {"read": 1}


async def test_a_move_that_makes_things_worse_does_not_take_the_answer_away(tmp_path: Path) -> None:
    model = script(tmp_path, read("Paris", 0.4), reasoned("Rome", 0.1), says("query_writer", "SUFFICIENT"))
    result = await play(model, searches(), method=lean())
    assert isinstance(result.outcome, Stopped) and result.answer == "Paris"
    assert result.answerability == pytest.approx(0.354, abs=0.001)


async def test_a_move_that_is_not_worth_it_is_not_made(tmp_path: Path) -> None:
    model = script(tmp_path, read("Paris", 0.3))
    result = await play(model, searches(), method=lean(least=0.7))
    assert actions(result) == ["RETRIEVE", "STOP"]
    assert result.answer == "Paris" and calls(result) == {"read": 1}


async def test_the_end_names_each_move_that_was_refused_with_its_value_and_its_tokens(tmp_path: Path) -> None:
    # A search is worth 0.60, more than the threshold of searches, 0.10, which lean does not use.
    result = await play(script(tmp_path, read("Paris", 0.3)), searches(), method=lean(least=0.7))
    compared = [tuple(each.values()) for each in result.record()["steps"][-1]["comparisons"]]
    assert [each[0] for each in compared] == [
        "answerability", "conflict", "value of the move reason", "value of the move search"
    ]  # fmt: skip
    assert compared[2] == ("value of the move reason", 0.5, "at least", 0.7, False)
    assert compared[3] == ("value of the move search", pytest.approx(0.599, abs=0.001), "at least", 0.7, False)
    assert mentions(result.reason, "a reasoned read helps with probability 0.50 for about 500 tokens", "1,100 tokens")
    assert "retrieval value" not in result.reason and "search is not worth" not in result.reason


async def test_an_abstention_names_the_refused_moves_too(tmp_path: Path) -> None:
    hopeless = Thresholds(abstain_sufficiency=1.0, abstain_uncertainty=0.0)
    held_back = Thresholds(least_answerability=0.9)
    for thresholds in (hopeless, held_back):
        method = lean(least=0.7, thresholds=thresholds)
        result = await play(script(tmp_path, read("Paris", 0.1)), searches(), method=method)
        assert result.outcome.name == "abstained"
        assert "value of the move search 0.60 is not at least 0.70" in result.reason
        assert "retrieval value" not in result.reason


async def test_the_end_says_which_rule_forbids_another_move(tmp_path: Path) -> None:
    async def reason(*lines: dict[str, Any], budget: Budget = Budget(), **options: Any) -> str:
        result = await play(script(tmp_path, *lines), searches(), method=lean(**options), budget=budget)
        assert isinstance(result.outcome, Stopped)
        return result.reason

    assert "limit of moves (1)" in await reason(read("Paris", 0.3), reasoned("Rome", 0.3), moves=1)
    assert "within the budget; give" in await reason(read("Paris", 0.3), budget=Budget(actions=2))
    only_reading = await reason(read("Paris", 0.3), budget=Budget(rounds=1), least=0.7)
    assert mentions(only_reading, "no search is left within the budget, and", "a reasoned read helps")
    assert "another search" not in only_reading
    once = {Move.REASON: always(0.0, 500)}
    assert "no other move is possible" in await reason(read("Paris", 0.3), reasoned("Rome", 0.3), values=once)
    rival = says("read", "alphaa", logprobs={"alphaa": 0.55, "alphab": 0.45})
    assert "contradicts itself" in await reason(rival, thresholds=Thresholds(abstain=False, conflict=0.4))
    missing = says("query_writer", "SUFFICIENT")
    assert "nothing left to search" in await reason(read("Paris", 0.3), reasoned("Rome", 0.3), missing)


async def test_there_are_no_more_moves_than_allowed_and_none_beyond_the_budget(tmp_path: Path) -> None:
    lines = [read("Paris", 0.3), reasoned("Rome", 0.3), read("Bonn", 0.3), says("query_writer", "next", repeat=True)]
    result = await play(script(tmp_path, *lines), searches(), method=lean(moves=1))
    assert actions(result) == ["RETRIEVE", "VERIFY", "STOP"]
    result = await play(script(tmp_path, *lines), searches(), method=lean(), budget=Budget(actions=2))
    assert actions(result) == ["RETRIEVE", "STOP"]
    result = await play(script(tmp_path, *lines), searches(), method=lean(), budget=Budget(tokens=1))
    assert actions(result) == ["RETRIEVE", "STOP"]


async def test_an_answer_below_the_least_answerability_is_held_back(tmp_path: Path) -> None:
    method = lean(least=0.9, thresholds=Thresholds(least_answerability=0.9))
    result = await play(script(tmp_path, read("Paris", 0.3)), searches(), method=method)
    assert result.outcome.name == "abstained" and result.answer is None


async def test_without_token_probabilities_nothing_is_answered_by_guessing_them(tmp_path: Path) -> None:
    result = await play(script(tmp_path, says("read", "Paris")), searches(), method=lean())
    assert result.outcome.name == "failed" and "token probabilities" in result.reason


def stated(answer: str, sure: int, missing: str = "nothing") -> dict[str, Any]:
    return says("read", {"missing": missing, "answer": answer, "sure": sure})


async def test_a_model_without_token_probabilities_is_asked_how_sure_it_is_and_searches_where_it_is_not(
    tmp_path: Path,
) -> None:
    sure = await play(script(tmp_path, stated("Paris", 9)), searches(), method=lean(verifier=Stated()))
    assert isinstance(sure.outcome, Answered) and sure.answer == "Paris"
    assert sure.answerability == pytest.approx(0.917, abs=0.001), "uncertainty is 1 - 9/10"
    model = script(tmp_path, stated("Paris", 3, "who"), says("query_writer", "the next query"), stated("Oslo", 8))
    retriever = searches()
    result = await play(model, retriever, method=lean(verifier=Stated()))
    assert actions(result) == ["RETRIEVE", "RETRIEVE", "ANSWER"]
    assert retriever.queries[1] == "the next query" and result.answer == "Oslo"
    assert calls(result) == {"read": 2, "query_writer": 1}


async def test_what_a_model_does_not_say_of_a_reasoned_read_is_not_made_up(tmp_path: Path) -> None:
    # A reasoned read has the largest value per token, but no probabilities would say how sure it is.
    method = lean({Move.REASON: always(2.0, 100)}, verifier=Stated())
    result = await play(script(tmp_path, stated("Paris", 3)), searches(), method=method)
    assert actions(result) == ["RETRIEVE", "STOP"] and result.answer == "Paris"
    assert "no other move is possible" in result.reason
    model = script(tmp_path, stated("Paris", 3), says("query_writer", "the next query"), stated("Oslo", 5))
    collector = collect_states("lean_survey", SCALE, MethodInputs(verifier=Stated()))
    assert actions(await play(model, searches(), method=collector)) == ["RETRIEVE", "RETRIEVE", "STOP"]


async def test_the_collector_makes_every_move_and_has_an_answer_at_each_state(tmp_path: Path) -> None:
    model = script(
        tmp_path, read("Paris", 0.6), reasoned("Rome", 0.2), read("Oslo", 0.5), says("query_writer", "the next query")
    )
    result = await play(model, searches(), method=collect_states("lean_survey", SCALE, MethodInputs()))
    assert actions(result) == ["RETRIEVE", "VERIFY", "RETRIEVE", "STOP"]
    attempts = [step["attempt"] and step["attempt"]["answer"] for step in result.record()["steps"]]
    assert attempts == [None, "Paris", "Rome", "Oslo"]
    assert result.answer == "Oslo"
    sure = script(tmp_path, read("Paris", 0.75))
    result = await play(sure, searches(), method=collect_states("lean_survey", SCALE, MethodInputs()))
    assert actions(result) == ["RETRIEVE", "STOP"], "where the draft is sure nobody asks what a move is worth"
    unsure = script(tmp_path, read("Paris", 0.2))
    result = await play(unsure, searches(), method=collect_states("lean_reads", SCALE, MethodInputs()))
    assert (actions(result), result.answer) == (["RETRIEVE", "STOP"], "Paris")


async def test_evidence_is_read_as_it_is_shown(tmp_path: Path) -> None:
    long = " ".join(f"Filler number {place} says little." for place in range(60))
    passage = Passage("x", "Ada Holm", f"{long} Ada Holm was born in Torsby.")
    model = script(tmp_path, read("Torsby", 0.95))
    result = await play(
        model, PlannedRetriever([Hit(passage, 20.0)]), method=lean(), pack=40, question="Where was Ada Holm born?"
    )
    assert result.answer == "Torsby"
    assert result.usage.tokens < 400


DATED = (
    Hit(Passage("h", "Ada Holm", "Ada Holm (1930 – 1999) was a designer."), 30.0),
    Hit(Passage("l", "Per Lund", "Per Lund (1928 – 2003) was a director."), 25.0),
)


async def test_the_earlier_of_two_is_told_from_dates_without_asking_a_model(tmp_path: Path) -> None:
    question = "Who was born first, Ada Holm or Per Lund?"
    result = await play(script(tmp_path), PlannedRetriever(DATED), method=lean(), question=question)
    assert actions(result) == ["RETRIEVE", "ANSWER"]
    assert result.answer == "Per Lund" and result.answerability == pytest.approx(0.96)
    assert result.usage.tokens == 0
    assert "Ada Holm born 1930" in result.reason and "Per Lund born 1928" in result.reason
    assert {each.passage_id for each in result.citations} == {"h", "l"}


async def test_dates_are_not_compared_where_that_is_switched_off(tmp_path: Path) -> None:
    question = "Who was born first, Ada Holm or Per Lund?"
    method = lean(compare=False)
    result = await play(
        script(tmp_path, read("Ada Holm", 0.95)), PlannedRetriever(DATED), method=method, question=question
    )
    assert result.answer == "Ada Holm" and calls(result) == {"read": 1}
