"""The decisions that methods have in common. A reason is a code that `beliefrag.explanation` puts into words."""

from __future__ import annotations

from typing import Self

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Measurement, View
from beliefrag.types import Action, Comparison, Cut, Decision


class FixedSchedule:
    """A method that measures nothing and keeps no state between steps: it is its own controller."""

    __slots__ = ()

    def begin(self) -> Self:
        """Return the method itself."""
        return self

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        """Measure nothing."""
        return Measurement()


def can_search(view: View) -> bool:
    """Return whether another search is within every limit."""
    return Action.RETRIEVE in view.legal


def search(
    view: View, reason: str, *compared: Comparison, query: str | None = None, cut: Cut | None = None
) -> Decision:
    """RETRIEVE."""
    return Decision(Action.RETRIEVE, f"retrieve:{reason}", compared, view.legal, query=query, cut=cut)


def answer(view: View, reason: str, *compared: Comparison, answer: str | None = None) -> Decision:
    """ANSWER: the method has done all that it set out to do."""
    return Decision(Action.ANSWER, f"answer:{reason}", compared, view.legal, answer=answer)


def stop(view: View) -> Decision:
    """STOP: the method would have gone on, and no limit allows it."""
    return Decision(Action.STOP, "stop:budget", legal=view.legal)
