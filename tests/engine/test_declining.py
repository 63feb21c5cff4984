"""Where questions are asked: unlikely answers are not given, and a correction loses nothing that it cannot replace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from beliefrag.engine import loop
from beliefrag.engine.assembly import assemble
from beliefrag.engine.controller import Controller, Measurement, Method, View
from beliefrag.engine.loop import Harness
from beliefrag.engine.model_calls import ModelCalls
from beliefrag.events import Retrieved
from beliefrag.outcome import Abstained, Answered, Stopped
from beliefrag.policy import Situation, Thresholds, decide_end
from beliefrag.prompts import Prompts
from beliefrag.result import Result
from beliefrag.settings import DECLINE_BELOW, Settings
from beliefrag.types import Action, Attempt, Belief, Budget, CitationRole, Decision, Hit, Passage, Question
from beliefrag.verifiers import build_verifier
from tests.support.episodes import PlannedRetriever, script
from tests.support.messages import mentions

TOWER = Hit(Passage("tower", "Graz", "Graz has a clock tower. The tower of Graz is 28 m high."), 9.0)
OTHER = Hit(Passage("other", "Linz", "Linz lies on the Danube."), 5.0)
THIRD = Hit(Passage("third", "Wels", "Wels has a fair."), 4.0)


@dataclass(frozen=True)
class Planned:
    """A method that takes planned actions at planned probabilities."""

    name: ClassVar[str] = "planned"
    steps: tuple[tuple[Action, float | None, str | None], ...]
    drop: tuple[str, ...] = ()

    def begin(self) -> Controller:
        return self

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        _, sure, draft = self.steps[view.step]
        return Measurement(answerability=sure, attempt=Attempt(draft) if draft else None)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        action = self.steps[view.step][0]
        query = f"query {view.step}" if action is Action.RETRIEVE and view.queries else None
        answer = self.steps[view.step][2]
        return Decision(action, "planned", "as planned", query=query, drop=self.drop, answer=answer)


async def play(
    folder: Path,
    method: Method,
    *searches: Sequence[Hit],
    replies: Sequence[dict[str, Any]] = ({"purpose": "answer", "reply": "28 m", "repeat": True},),
    **rules: Any,
) -> Result:
    model = script(folder, *replies)
    harness = Harness(model, PlannedRetriever(*searches), Prompts.load(), build_verifier("structured"), **rules)
    question = Question("How high is the clock tower of Graz?")
    return Result.from_events([event async for event in loop.run(question, method, harness)])


@pytest.mark.parametrize("action", [Action.ANSWER, Action.STOP])
async def test_an_answer_below_the_threshold_becomes_a_guess(tmp_path: Path, action: Action) -> None:
    method = Planned(((Action.RETRIEVE, 0.1, None), (action, 0.2, None)))
    result = await play(tmp_path, method, [TOWER], decline_below=0.35)
    assert isinstance(result.outcome, Abstained)
    assert (result.answer, result.best_guess, result.answerability) == (None, "28 m", 0.2)
    assert result.citations == () and "28 m" in result.nearest[-1].quote
    assert mentions(result.reason, "answerability 0.20", "not at least 0.35")


async def test_an_answer_at_the_threshold_is_given_with_its_citations(tmp_path: Path) -> None:
    method = Planned(((Action.RETRIEVE, 0.1, None), (Action.STOP, 0.35, None)))
    result = await play(tmp_path, method, [TOWER], decline_below=0.35)
    assert isinstance(result.outcome, Stopped) and result.answer == "28 m"
    assert result.citations[-1].role is CitationRole.ANSWER


async def test_a_method_that_knows_no_probability_answers_as_ever(tmp_path: Path) -> None:
    method = Planned(((Action.RETRIEVE, None, None), (Action.ANSWER, None, None)))
    result = await play(tmp_path, method, [TOWER], decline_below=0.35)
    assert isinstance(result.outcome, Answered)


async def test_who_abstains_tells_the_draft_as_a_guess(tmp_path: Path) -> None:
    method = Planned(((Action.RETRIEVE, 0.1, None), (Action.ABSTAIN, 0.2, "a tower")))
    result = await play(tmp_path, method, [TOWER])
    assert (result.answer, result.best_guess, result.usage.calls) == (None, "a tower", 0)


ABSTAINS = Planned(((Action.RETRIEVE, 0.1, None), (Action.ABSTAIN, 0.2, None)))


async def test_who_abstains_without_a_draft_is_asked_for_a_guess_where_questions_are_asked(tmp_path: Path) -> None:
    result = await play(tmp_path, ABSTAINS, [TOWER], decline_below=0.35)
    assert isinstance(result.outcome, Abstained)
    assert (result.answer, result.best_guess, result.usage.calls) == (None, "28 m", 1)
    assert result.usage.tokens > 0 and "28 m" in result.nearest[-1].quote


@pytest.mark.parametrize("rules", [{}, {"decline_below": 0.0}])
async def test_under_the_rules_of_the_paper_nobody_is_asked_for_a_guess(tmp_path: Path, rules: dict[str, Any]) -> None:
    result = await play(tmp_path, ABSTAINS, [TOWER], **rules)
    assert (result.outcome.name, result.best_guess, result.usage.calls) == ("abstained", None, 0)


async def test_without_evidence_there_is_no_guess(tmp_path: Path) -> None:
    result = await play(tmp_path, ABSTAINS, [], decline_below=0.35)
    assert (result.outcome.name, result.best_guess, result.usage.calls) == ("abstained", None, 0)


class Spending(Planned):
    """Spends tokens on another call before it declines."""

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        if view.queries:
            await calls.rewrite(view.question, "tower", "nothing was found")
        return await super().measure(view, calls)


@pytest.mark.parametrize(("tokens", "guess", "calls"), [(10_000, "28 m", 2), (350, None, 1), (1, None, 0)])
async def test_a_guess_is_asked_for_only_where_it_fits_into_the_token_budget(
    tmp_path: Path, tokens: int, guess: str | None, calls: int
) -> None:
    replies = [{"purpose": "rewriter", "reply": "Graz"}, {"purpose": "answer", "reply": "28 m"}]
    budget = Budget(tokens=tokens)
    spending = Spending(ABSTAINS.steps)
    result = await play(tmp_path, spending, [TOWER], replies=replies, decline_below=0.35, budget=budget)
    assert (result.outcome.name, result.best_guess, result.usage.calls) == ("abstained", guess, calls)
    assert result.usage.tokens <= tokens


async def test_a_guess_that_cannot_be_had_changes_no_decision(tmp_path: Path) -> None:
    broken = {"purpose": "answer", "error": {"status": 500}, "repeat": True}
    for replies in ([broken], [{"purpose": "answer", "reply": "...", "repeat": True}]):
        result = await play(tmp_path, ABSTAINS, [TOWER], replies=replies, decline_below=0.35)
        assert (result.outcome.name, result.best_guess) == ("abstained", None)
        assert result.nearest


@dataclass(frozen=True)
class Ending:
    """A method that searches once and then ends as the policy of the paper says."""

    name: ClassVar[str] = "ending"
    sure: float

    def begin(self) -> Controller:
        return self

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        return Measurement(answerability=self.sure)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        if not view.queries:
            return Decision(Action.RETRIEVE, "first", "first")
        legal = (Action.ANSWER, Action.STOP, Action.ABSTAIN)
        belief = Belief(0.9, 0.9, 0.0, 0.1, 0.1, 0.0)
        return decide_end(Situation(belief, self.sure, 0.0, 1.0, 1, 0, (), legal, correction_fits=False), Thresholds())


@pytest.mark.parametrize("sure", [0.4, 0.6])
async def test_who_is_declined_is_not_told_that_an_answer_can_be_given(tmp_path: Path, sure: float) -> None:
    result = await play(tmp_path, Ending(sure), [TOWER], decline_below=0.7)
    assert result.outcome.name == "abstained"
    assert mentions(result.reason, "not sure enough to answer", f"answerability {sure:.2f}", "not at least 0.70")
    assert not re.search("can be answered|give the best answer", result.reason)
    assert ("no search is left within the budget" in result.reason) == (sure < 0.5)


CORRECTED = Planned(
    (
        (Action.RETRIEVE, 0.1, None),
        (Action.VERIFY, 0.8, "28 m"),
        (Action.RETRIEVE, 0.3, None),
        (Action.STOP, 0.4, "the Danube"),
    ),
    drop=("tower",),
)


async def test_an_answer_that_was_likelier_before_a_correction_is_the_answer(tmp_path: Path) -> None:
    result = await play(tmp_path, CORRECTED, [TOWER], [OTHER], keep_when_correcting=True)
    assert (result.answer, result.answerability) == ("28 m", 0.8)
    assert [passage.id for passage in result.sources] == ["tower"]
    assert "before the correction" in result.reason


async def test_without_that_rule_the_last_answer_is_the_answer(tmp_path: Path) -> None:
    result = await play(tmp_path, CORRECTED, [TOWER], [OTHER])
    assert (result.answer, result.answerability) == ("the Danube", 0.4)


async def test_an_earlier_state_without_a_draft_is_answered_from_its_own_passages(tmp_path: Path) -> None:
    steps = tuple((action, sure, None) for action, sure, _ in CORRECTED.steps)
    result = await play(tmp_path, Planned(steps, drop=("tower",)), [TOWER], [OTHER], keep_when_correcting=True)
    assert (result.answer, [passage.id for passage in result.sources]) == ("28 m", ["tower"])


async def test_a_likelier_answer_without_a_correction_in_between_changes_nothing(tmp_path: Path) -> None:
    steps = ((Action.RETRIEVE, 0.1, None), (Action.RETRIEVE, 0.8, "early"), (Action.STOP, 0.4, "late"))
    result = await play(tmp_path, Planned(steps), [TOWER], [OTHER], keep_when_correcting=True)
    assert result.answer == "late"


def searched(result: Result) -> list[Retrieved]:
    return [event for event in result.events if isinstance(event, Retrieved)]


async def test_a_dropped_passage_comes_back_when_another_query_finds_it(tmp_path: Path) -> None:
    result = await play(tmp_path, CORRECTED, [TOWER], [OTHER, TOWER], keep_when_correcting=True)
    last = searched(result)[-1]
    assert last.readmitted == ("tower",) and last.refused == () and set(last.evidence) == {"other", "tower"}
    assert mentions(last.mutations[-1].reason, "found again", "another query")


async def test_a_dropped_passage_comes_back_when_nothing_better_came(tmp_path: Path) -> None:
    result = await play(tmp_path, CORRECTED, [TOWER, OTHER], [OTHER], keep_when_correcting=True)
    last = searched(result)[-1]
    assert last.readmitted == ("tower",) and last.mutations[-1].reason == "nothing better was found"


async def test_under_the_rule_of_the_paper_it_never_comes_back(tmp_path: Path) -> None:
    for second in ([OTHER, TOWER], [OTHER]):
        last = searched(await play(tmp_path, CORRECTED, [TOWER, OTHER], second))[-1]
        assert last.readmitted == () and "tower" not in last.evidence


async def test_a_passage_that_was_dropped_twice_stays_away(tmp_path: Path) -> None:
    again = (*CORRECTED.steps[:3], (Action.VERIFY, 0.5, None), (Action.RETRIEVE, 0.5, None), (Action.STOP, 0.5, None))
    method = Planned(again, drop=("tower",))
    result = await play(tmp_path, method, [TOWER], [TOWER, OTHER], [TOWER, THIRD], keep_when_correcting=True)
    assert searched(result)[-1].refused == ("tower",)


def test_products_decline_below_the_setting_and_nothing_is_lost_in_corrections(tmp_path: Path) -> None:
    settings = Settings(model=f"scripted:{write_replies(tmp_path)}", borrow="published", cache=False)
    harness = assemble(settings, passages=[TOWER.passage]).harness
    assert (harness.decline_below, harness.keep_when_correcting) == (DECLINE_BELOW, True)
    for changes, expected in (
        ({"decline_below": 0.6}, 0.6),
        ({"thresholds": {"least_answerability": 0.2}}, 0.2),
        ({"thresholds": {"abstain": False}}, None),
    ):
        changed = Settings.model_validate(settings.model_dump() | changes)
        assert assemble(changed, passages=[TOWER.passage]).harness.decline_below == expected


def test_benchmarks_keep_the_rules_of_the_paper() -> None:
    rules = Harness.__dataclass_fields__
    assert (rules["decline_below"].default, rules["keep_when_correcting"].default) == (None, False)


def write_replies(folder: Path) -> Path:
    file = folder / "replies.jsonl"
    file.write_text('{"purpose": "answer", "reply": "28 m", "repeat": true}\n', encoding="utf-8")
    return file
