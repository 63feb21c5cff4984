"""The small protocol that every method implements.

A method is asked twice per step. `measure` may look at the evidence through `calls` and so may pay for model calls.
`decide` is plain and pays for nothing: it sees what is legal after the measuring was paid for, and picks one action.
The loop carries it out. A new method is one file with these two functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from beliefrag.engine.calls import ModelCalls
from beliefrag.policy.decide import Spent
from beliefrag.types import Action, Attempt, Belief, Budget, Decision, Diagnostics, Observation, Passage, Question


@dataclass(frozen=True, slots=True)
class View:
    """What a controller may see: the question, the evidence, its own history and what is left. No gold, no labels."""

    question: Question
    """The question, with an id that says nothing: see `hide_question_id`."""
    step: int
    passages: tuple[Passage, ...]
    """Retained evidence in the order in which it came."""
    scores: tuple[float, ...]
    """The retriever's raw score of each passage."""
    beyond: float
    """The share of the latest search's scores that went to candidates which are not retained; 0 before the first."""
    verifier_window: tuple[Passage, ...]
    answer_window: tuple[Passage, ...]
    queries: tuple[str, ...]
    """Searches made so far."""
    rewritten: str | None
    """What REWRITE gave, until the next search."""
    novelty: float
    """The novelty of the latest search; 1 before the first."""
    actions: tuple[Action, ...]
    budget: Budget
    spent: Spent
    legal: tuple[Action, ...]
    correction_fits: bool
    nothing_missing: bool
    """The query writer found nothing left to search for."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a controller found out in one step. Methods without a belief leave its parts empty."""

    observation: Observation | None = None
    diagnostics: Diagnostics | None = None
    belief: Belief | None = None
    answerability: float | None = None
    retrieval_value: float | None = None
    attempt: Attempt | None = None
    """What answering here would give, where that is known without asking for it."""


class Controller(Protocol):
    """A method at work on one question."""

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        """Look at the state. All model calls of the method go through `calls`."""
        ...

    def decide(self, view: View, measurement: Measurement) -> Decision:
        """Choose one action out of `view.legal`."""
        ...


class Method(Protocol):
    """A way to control retrieval."""

    @property
    def name(self) -> str:
        """How settings, traces and tables call it."""
        ...

    def begin(self) -> Controller:
        """Return a fresh controller for one question."""
        ...
