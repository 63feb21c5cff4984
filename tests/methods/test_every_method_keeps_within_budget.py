"""One property for all methods: whatever the budget and the replies, an episode ends well within its limits."""

import asyncio
import json
import math
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beliefrag.calibration import load_artifact
from beliefrag.engine.controller import Method
from beliefrag.errors import TransportError
from beliefrag.methods import METHODS, MethodInputs, build_method
from beliefrag.methods.crag import Crag
from beliefrag.models.protocol import ChatReply, ChatRequest, TokenProbability
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.record import Episode
from beliefrag.types import TERMINAL, Action, Budget, Hit, Passage
from tests.support.episodes import play

CALIBRATION = load_artifact("published").calibration(ScoreScale(20.0, 8.0))
unit = st.floats(0.0, 1.0)
words = st.sampled_from(
    ["Ada built it.", "Ada Holm was born. Then more.", "So the answer is: x.", "...", "yes", "one two"]
)
REPLIES = {
    "query_writer": st.sampled_from(["SUFFICIENT", "first", "second"]),
    "rewriter": st.sampled_from(["third", "fourth"]),
    "answer": st.just("words"),
    "gate": st.sampled_from(["words", "..."]),
    "router": st.sampled_from(["A", "B", "C", "C", "perhaps"]),
    "trigger": st.sampled_from(["yes", "yes", "no", "perhaps"]),
    "reasoner": words,
    "draft": words,
    "read": st.sampled_from(["Ada", "Ada Holm", "..."]),
    "dialogue": st.sampled_from(
        ["<search>q</search>", "<search>r", "<answer>x</answer>", "lost", "<search></search>", "<think>t</think>"]
    ),
    "yes or no": st.sampled_from(["yes", "no", "well"]),
    "slots": st.sampled_from(['{"proved": "yes", "complete": "no"}', "{}"]),
}
PLAYED = [
    *((name, "structured") for name in METHODS),
    ("beliefrag", "slots"),
    ("beliefrag", "probability"),
    ("crag", "probability"),
    ("lean", "draft"),
]
"""Each method, and those that make other calls with other verifier forms."""


def find_kind(request: ChatRequest) -> str:
    """Return what is asked for: the purpose, or which of the questions that some forms ask for one purpose."""
    if request.purpose in {"verifier", "grader"} and request.max_tokens == 1:
        return "yes or no"
    if request.purpose == "verifier" and request.schema is None:
        return "read"
    if request.schema and "proved" in request.schema["properties"]:
        return "slots"
    return request.purpose


class AnyRetriever:
    """Finds whatever the test draws. Drawn beforehand: searches run in a worker thread, where nothing can be drawn."""

    def __init__(self, data: st.DataObject) -> None:
        found = st.lists(
            st.tuples(st.sampled_from("abcdefghijklmno"), st.floats(-5, 60)), unique_by=lambda hit: hit[0], max_size=8
        )
        self.searches = data.draw(st.lists(found, min_size=1, max_size=4))
        self.made = 0

    def search(self, query: str, k: int) -> list[Hit]:
        self.made += 1
        hits = self.searches[(self.made - 1) % len(self.searches)]
        return [Hit(Passage(i, i, f"words {i}"), score) for i, score in hits]


class Whimsical:
    """Replies with whatever the test draws, at any price, and can be down.

    With tokens to a character it counts prompts by their characters, keeps its replies short, and is never down.
    """

    identity = "whimsical"

    def __init__(self, data: st.DataObject, tokens_per_character: float | None = None) -> None:
        self.data = data
        self.rate = tokens_per_character

    async def chat(self, request: ChatRequest) -> ChatReply:
        if self.rate is None and self.data.draw(st.integers(0, 40)) == 0:
            raise TransportError("down")
        kind = find_kind(request)
        if kind == "verifier":
            scores = {name: self.data.draw(unit) for name in ("support", "conflict", "gap", "uncertainty")}
            text = json.dumps(scores | {"unhelpful_doc_ids": self.data.draw(st.lists(st.integers(-1, 9), max_size=6))})
        elif kind == "grader":
            shown = request.messages[-1].content.count("<passage id=") if len(request.messages) == 2 else 1
            text = json.dumps({"grades": self.data.draw(st.lists(unit, min_size=shown, max_size=shown))})
        else:
            text = self.data.draw(REPLIES[kind])
        tokens = tuple(self.draw_token(word if i == 0 else f" {word}") for i, word in enumerate(text.split()))
        if self.rate is None:
            tokens_in, tokens_out = self.data.draw(st.integers(0, 4000)), 10
        else:
            tokens_in = math.ceil(sum(len(message.content) for message in request.messages) * self.rate)
            tokens_out = min(self.data.draw(st.integers(1, 64)), request.max_tokens or 64)
        return ChatReply(text, tokens_in, tokens_out, 0.0, tokens=tokens if request.top_logprobs else None)

    def draw_token(self, text: str) -> TokenProbability:
        p = self.data.draw(st.floats(0.01, 0.99))
        is_decided = text.strip(' "{},') in {"yes", "no"}
        odds = (("yes", math.log(p)), ("no", math.log(1 - p))) if is_decided else ()
        return TokenProbability(text, math.log(p), odds)

    async def aclose(self) -> None: ...


THRESHOLDS = st.builds(Thresholds, answer=unit, conflict=unit, reliability=unit, retrieval_value=unit, novelty=unit)


def budgets(tokens: int) -> st.SearchStrategy[Budget]:
    return st.builds(
        Budget,
        rounds=st.integers(0, 4),
        top_k=st.integers(1, 6),
        actions=st.integers(1, 8),
        tokens=st.integers(1, tokens),
        verifier_passages=st.integers(1, 8),
        answer_passages=st.integers(1, 10),
    )


def check_invariants(result: Episode, budget: Budget) -> None:
    steps = result.steps
    assert result.outcome is not None
    assert len(steps) <= budget.actions
    assert sum(step.search is not None and step.search.was_made for step in steps) <= budget.rounds
    assert result.usage.searches <= budget.rounds
    assert all(step.action in step.legal for step in steps)
    assert all(step.action not in TERMINAL for step in steps[:-1])
    if result.outcome != "failed":
        assert steps[-1].action in TERMINAL
    # Nothing new is begun once the token budget is spent, and no call but the one for the final answer. A query that
    # was paid for is searched for all the same: that costs no tokens.
    for before, step in zip([None, *steps], steps, strict=False):
        if step.tokens >= budget.tokens:
            assert step.action is not Action.REWRITE
            if step.action is Action.RETRIEVE:
                assert before is not None and before.action is Action.REWRITE
    # So of all calls but the final answer at most one, the last, ends above the budget.
    bounded = [call.tokens_in + call.tokens_out for call in result.calls if call.purpose != "answer"]
    assert sum(total > budget.tokens for total in accumulate(bounded)) <= 1
    dropped: set[str] = set()
    for step in steps:
        dropped |= set(step.dropped or ())
        assert not dropped & set(step.evidence)
    assert not dropped & set(result.sources)
    assert len(result.sources) <= max(budget.answer_passages, budget.rounds * budget.top_k)


def build(name: str, data: st.DataObject) -> Method:
    if name == "crag":
        return Crag(correct=0.9, incorrect=0.5)
    return build_method(name, MethodInputs(CALIBRATION, data.draw(THRESHOLDS) if name == "beliefrag" else Thresholds()))


@pytest.mark.parametrize(("name", "verifier"), PLAYED)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), rate=st.none() | st.floats(0.1, 1 / 3))
def test_every_episode_ends_within_its_budget_and_drops_for_good(
    name: str, verifier: str, data: st.DataObject, rate: float | None
) -> None:
    budget = data.draw(budgets(tokens=20_000 if rate is None else 4_000))
    method = build(name, data)
    played = play(Whimsical(data, rate), AnyRetriever(data), method=method, budget=budget, verifier=verifier)
    result = asyncio.run(played)
    check_invariants(result, budget)
    # Only a model that is down, or that has no words for the very answer, makes an episode fail.
    if result.outcome == "failed" and (rate is not None or result.cause != "TransportError"):
        assert "answer reply" in result.message
    if rate is not None:
        # Where tokens follow characters, only the final answer ends above the token budget.
        calls = [event for event in result.calls if event.purpose != "answer"]
        assert sum(call.tokens_in + call.tokens_out for call in calls) <= budget.tokens
