"""Declined questions: their best guess, and when people are declined by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from beliefrag.engine import loop
from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, Method, View
from beliefrag.engine.loop import Harness
from beliefrag.opening import assemble
from beliefrag.prompts import Prompts
from beliefrag.record import Episode
from beliefrag.settings import DECLINE_BELOW, Settings
from beliefrag.types import Action, Attempt, Budget, Decision, Hit, Passage, Question
from beliefrag.verifiers import build_verifier
from tests.support.episodes import PlannedRetriever, script

TOWER = Hit(Passage("tower", "Graz", "Graz has a clock tower. The tower of Graz is 28 m high."), 9.0)


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
        return Decision(action, "planned", query=query, drop=self.drop, answer=answer)


async def play(
    folder: Path,
    method: Method,
    *searches: Sequence[Hit],
    replies: Sequence[dict[str, Any]] = ({"purpose": "answer", "reply": "28 m", "repeat": True},),
    **rules: Any,
) -> Episode:
    model = script(folder, *replies)
    harness = Harness(model, PlannedRetriever(*searches), Prompts.load(), build_verifier("structured"), **rules)
    question = Question("How high is the clock tower of Graz?")
    return await loop.play(question, method, harness)


ABSTAINS = Planned(((Action.RETRIEVE, 0.1, None), (Action.ABSTAIN, 0.2, None)))


async def test_who_abstains_without_a_draft_is_asked_for_a_guess_where_questions_are_asked(tmp_path: Path) -> None:
    result = await play(tmp_path, ABSTAINS, [TOWER], guesses=True)
    assert result.outcome == "abstained"
    assert (result.answer, result.best_guess, result.usage.calls) == (None, "28 m", 1)
    assert result.usage.tokens > 0 and "28 m" in result.citations[-1].quote


@pytest.mark.parametrize(("found", "guesses"), [([TOWER], False), ([], True)])
async def test_without_evidence_or_under_the_rules_of_the_paper_nobody_is_asked_for_a_guess(
    tmp_path: Path, found: list[Hit], guesses: bool
) -> None:
    result = await play(tmp_path, ABSTAINS, found, guesses=guesses)
    assert (result.outcome, result.best_guess, result.usage.calls) == ("abstained", None, 0)


@pytest.mark.parametrize(("draft", "guess"), [("Unknown.", None), ("No", "No"), ("28 m", "28 m")])
async def test_a_draft_that_names_no_answer_is_not_a_guess(tmp_path: Path, draft: str, guess: str | None) -> None:
    result = await play(tmp_path, Planned(((Action.RETRIEVE, 0.1, None), (Action.ABSTAIN, 0.2, draft))), [TOWER])
    assert (result.outcome, result.best_guess) == ("abstained", guess)


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
    result = await play(tmp_path, spending, [TOWER], replies=replies, guesses=True, budget=budget)
    assert (result.outcome, result.best_guess, result.usage.calls) == ("abstained", guess, calls)
    assert result.usage.tokens <= tokens


async def test_a_guess_that_cannot_be_had_changes_no_decision(tmp_path: Path) -> None:
    broken = {"purpose": "answer", "error": {"status": 500}, "repeat": True}
    for replies in ([broken], [{"purpose": "answer", "reply": "...", "repeat": True}]):
        result = await play(tmp_path, ABSTAINS, [TOWER], replies=replies, guesses=True)
        assert (result.outcome, result.best_guess) == ("abstained", None)
        assert result.citations


def write_replies(folder: Path) -> Path:
    file = folder / "replies.jsonl"
    file.write_text('{"purpose": "answer", "reply": "28 m", "repeat": true}\n', encoding="utf-8")
    return file


def test_people_are_declined_by_default_and_by_their_own_threshold(tmp_path: Path) -> None:
    settings = Settings(model=f"scripted:{write_replies(tmp_path)}", borrow="published", cache=False)
    for changes, expected in (
        ({}, DECLINE_BELOW),
        ({"thresholds": {"decline_below": 0.2}}, 0.2),
        ({"thresholds": {"abstain": False}}, None),
    ):
        changed = Settings.model_validate(settings.model_dump() | changes)
        assembly = assemble(changed, passages=[TOWER.passage])
        assert (assembly.parts.thresholds.decline_below, assembly.harness.guesses) == (expected, bool(expected))
