"""Iterative: all rounds, whatever they bring."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.engine.model_calls import ModelCalls
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.types import Decision

__all__ = ["Iterative"]

_COMPLETE = "it seems to have found what it looked for; look for passages that confirm or complete it"


@dataclass(frozen=True, slots=True)
class Iterative:
    """Makes every search that the budget has rounds for, the query writer between them, then answers.

    The fixed schedule shows what brute force buys, so the query writer's SUFFICIENT does not end it: the last query
    is rewritten instead, and the round is made. Stopping early would make it an adaptive method.
    """

    name: str = "iterative"

    def begin(self) -> Controller:
        """A controller that remembers its next query."""
        return _Controller()


class _Controller:
    def __init__(self) -> None:
        self._query: str | None = None

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        if view.queries and can_search(view):
            self._query = await calls.write_query(view.question, view.answer_window, view.queries)
            if self._query is None:
                self._query = await calls.rewrite(view.question, view.queries[-1], _COMPLETE)
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        rounds = view.budget.rounds
        if can_search(view):
            return search(view, f"round {view.spent.rounds + 1} of {rounds}", query=self._query)
        return answer(view, "all rounds are made") if 0 < rounds <= view.spent.rounds else stop(view)
