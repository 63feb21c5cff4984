"""The token budget bounds every call but the final answer: one that is not expected to fit is not begun."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.engine.controller import Method
from beliefrag.errors import TokensSpent
from beliefrag.methods.crag import Crag
from beliefrag.methods.iterative import Iterative
from beliefrag.methods.self_rag import SelfRag
from beliefrag.models.compose import Meter
from beliefrag.models.protocol import ChatModel
from beliefrag.policy import Thresholds
from beliefrag.prompts import Prompts
from beliefrag.record import Episode
from beliefrag.types import Action, Budget, Hit, Passage, Question
from beliefrag.verifiers import build_verifier
from tests.support.episodes import PlannedRetriever, PricedModel, hits, play, published_method, script, verdict
from tests.support.reading import calls, says

FLAWED = verdict(0.1, 0.9, 1.0, unhelpful=[2]) | {"repeat": True}
CORRECTED = says("rewriter", "other words", repeat=True)
ANSWER = says("answer", "Paris", repeat=True)
APART = published_method(thresholds=Thresholds(merge_rewriter=False))
SEARCHING = published_method(thresholds=Thresholds(answer=1.0, retrieval_value=0.0))


def bounded_calls(result: Episode) -> list[tuple[str, int]]:
    """Return the purpose and the tokens of all calls but the one for the final answer."""
    finished = result.calls
    return [(each.purpose, each.tokens_in + each.tokens_out) for each in finished if each.purpose != "answer"]


def bounded_tokens(result: Episode) -> int:
    return sum(tokens for _, tokens in bounded_calls(result))


def doubts(purpose: str) -> dict[str, Any]:
    """Return a yes that is hardly likelier than no, to every small question."""
    return says(purpose, "yes", match="one word, yes or no", logprobs={"yes": 0.5, "no": 0.4}, repeat=True)


DRAFT = says("verifier", "Paris", match="answer alone", logprobs={"Paris": 0.3}, repeat=True)
NO_TOKEN: dict[str, Any] = {"token": '"no"', "p": 0.8, "top": {'"no"': 0.8, '"yes"': 0.1}}
FORM_TOKENS = [
    {"token": '{"proved": ', "p": 1.0},
    NO_TOKEN,
    {"token": ', "complete": ', "p": 1.0},
    NO_TOKEN,
    {"token": "}", "p": 1.0},
]
FORM = says("verifier", "".join(each["token"] for each in FORM_TOKENS), logprobs=FORM_TOKENS, repeat=True)
QUERIES = says("query_writer", "more", repeat=True)
CRAG = Crag(correct=0.7, incorrect=0.3)


@dataclass(frozen=True)
class Case:
    """An episode, and the purpose of the calls of which the last is too much."""

    purpose: str
    method: Method
    lines: tuple[dict[str, Any], ...]
    verifier: str = "structured"


CASES = {
    "verifier": Case("verifier", published_method(), (FLAWED, CORRECTED, ANSWER)),
    "verifier with slots": Case("verifier", SEARCHING, (DRAFT, FORM, QUERIES, ANSWER), "slots"),
    "verifier with probabilities": Case(
        "verifier", SEARCHING, (DRAFT, doubts("verifier"), QUERIES, ANSWER), "probability"
    ),
    "corrected query": Case("rewriter", published_method(), (FLAWED, CORRECTED, ANSWER)),
    "rewritten query": Case("rewriter", APART, (FLAWED, CORRECTED, QUERIES, ANSWER)),
    "grader": Case(
        "grader", CRAG, (says("grader", {"grades": [0.5, 0.5]}), CORRECTED, says("grader", {"grades": [0.5]}), ANSWER)
    ),
    "grader of each passage": Case("grader", CRAG, (doubts("grader"), CORRECTED, ANSWER), "probability"),
    "query of every round": Case("query_writer", Iterative(), (QUERIES, ANSWER)),
    "query after a trigger": Case("query_writer", SelfRag(), (says("trigger", "yes", repeat=True), QUERIES, ANSWER)),
}


async def play_case(folder: Path, name: str, budget: Budget) -> tuple[Episode, list[str]]:
    case = CASES[name]
    retriever = PlannedRetriever(hits("a", "b"), hits("c"))
    model = PricedModel(script(folder, *case.lines))
    result = await play(model, retriever, method=case.method, budget=budget, verifier=case.verifier)
    return result, retriever.queries


@pytest.mark.parametrize("name", CASES)
async def test_wherever_the_budget_ends_the_call_that_would_end_above_it_is_the_first_that_is_not_begun(
    tmp_path: Path, name: str
) -> None:
    free, searched = await play_case(tmp_path, name, Budget())
    planned = bounded_calls(free)
    assert free.answer == "Paris"
    for begun in range(len(planned)):
        budget = Budget(tokens=sum(tokens for _, tokens in planned[: begun + 1]) - 1)
        bound, queries = await play_case(tmp_path, name, budget)
        assert bounded_calls(bound) == planned[:begun]
        assert (bound.outcome, bound.answer) == ("stopped", "Paris")
        # Where the query writer does not fit, the rewritten query that was paid for is searched for.
        assert set(queries) <= {*searched, "other words"}, "nothing is searched for that was not paid for"
        assert len(set(queries)) == len(queries)
        assert bound.steps[-1].tokens == bounded_tokens(bound), "what is told is what was used"
        if measured := bound.steps[-1].diagnostics:
            assert measured.cost == pytest.approx(bounded_tokens(bound) / budget.tokens)


def model_calls(model: ChatModel, tokens: int) -> ModelCalls:
    quiet = CallRecorder(lambda purpose: None, lambda request, reply, repairs: None)
    return ModelCalls(Meter(model), Prompts.load(), build_verifier("structured"), quiet, tokens)


async def test_after_a_call_that_did_not_fit_none_begins_but_the_final_answer(tmp_path: Path) -> None:
    long = [Passage("long", "Long", "word " * 2_000)]
    question = Question("Which?")
    asked = model_calls(script(tmp_path, says("query_writer", "next"), ANSWER), 1_000)
    assert await asked.write_query(question, (), ("Which?",)) == "next"
    spent = asked.usage.tokens
    assert not asked.tokens_are_spent
    with pytest.raises(TokensSpent, match=r"was not asked: \d+ of 1,000 tokens are spent, and it is expected to take"):
        await asked.write_query(question, long, ("Which?",))
    assert asked.tokens_are_spent and asked.usage.tokens == spent
    with pytest.raises(TokensSpent):
        await asked.rewrite(question, "Which?", "it found nothing")
    assert await asked.write_query(question, (), ("Which?",)) == "next", "what is known costs nothing"
    with pytest.raises(TokensSpent):
        await asked.answer(question, long, is_final=False)
    assert await asked.answer(question, long) == "Paris"


@pytest.mark.parametrize("texts", [lambda: "word " * 600, lambda: "x" * 3_000])
async def test_the_first_call_is_begun_with_long_passages_and_the_default_budget(
    tmp_path: Path, texts: Callable[[], str]
) -> None:
    found = [Hit(Passage(f"p{i}", f"Title {i}", texts()), 20.0 - i) for i in range(10)]
    result = await play(script(tmp_path, verdict(0.95, 0.0, 0.05), ANSWER), PlannedRetriever(found))
    assert calls(result) == {"verifier": 1, "answer": 1}
    assert result.steps[-1].action is Action.ANSWER
