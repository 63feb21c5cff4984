"""Iterative: all rounds, whatever they bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.methods import METHODS, TypicalCost
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.types import Decision

_COMPLETE = "it seems to have found what it looked for; look for passages that confirm or complete it"


@METHODS.register(
    "iterative",
    title="Iterative",
    summary="Makes every search that the budget has rounds for, then answers.",
    cost=TypicalCost(3, 3_840, 40),
)
@dataclass(frozen=True, slots=True)
class Iterative:
    """Searches as often as the budget has rounds, the query writer between them, then answers.

    The query writer's SUFFICIENT does not end it, which would make it an adaptive method: the last query is rewritten
    instead, and the round is made.
    """

    name: ClassVar[str] = "iterative"
    rounds: int | None = None
    """How many searches to make at most; by default every one that the budget allows."""

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds < 1:
            raise ValueError(f"rounds is at least 1, not {self.rounds}")

    def begin(self) -> Controller:
        """Return a controller that remembers its next query."""
        return _Controller(self.rounds)


class _Controller:
    def __init__(self, rounds: int | None) -> None:
        self._rounds = rounds
        self._query: str | None = None

    def _planned_rounds(self, view: View) -> int:
        return view.budget.rounds if self._rounds is None else min(self._rounds, view.budget.rounds)

    def _may_continue(self, view: View) -> bool:
        return can_search(view) and view.spent.rounds < self._planned_rounds(view)

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        if view.queries and self._may_continue(view):
            self._query = await calls.write_query(view.question, view.answer_window, view.queries)
            if self._query is None:
                self._query = await calls.rewrite(view.question, view.queries[-1], _COMPLETE, view.queries)
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        rounds = self._planned_rounds(view)
        if self._may_continue(view):
            return search(view, "next-round", query=self._query)
        return answer(view, "all-rounds") if 0 < rounds <= view.spent.rounds else stop(view)
