"""Interventions on answerability: BeliefRAG as it is, with one number exchanged before it decides.

What the live score does for the controller shows when it is taken away and everything else is left alone. Evidence,
observation, diagnostics, belief and retrieval value stay those that were measured.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, Method, View
from beliefrag.engine.loop import hide_question_id
from beliefrag.types import Decision, Question


class Intervention(Protocol):
    """Chooses the answerability that an episode decides with."""

    @property
    def identity(self) -> str:
        """All that its values depend on, for the record of a run."""
        ...

    def value(self, live: float, first: float, view: View) -> float:
        """Return the answerability in place of the live one; `first` is that of the first state with evidence."""
        ...


@dataclass(frozen=True, slots=True)
class FrozenAnswerability:
    """Decides with the answerability of the episode's first state with evidence, throughout.

    Before there is evidence answerability is a constant of the calibration, the same for every question.
    """

    identity: str = "frozen"

    def value(self, live: float, first: float, view: View) -> float:
        """Return the first value."""
        return first


@dataclass(frozen=True, slots=True)
class MatchedState:
    """The answerability of a state of another episode, which may replace the live one."""

    question_id: str
    answerability: float


@dataclass(frozen=True, slots=True)
class PermutedAnswerability:
    """The answerability of a matched state: same dataset, same round, another question.

    The draw is seeded by seed, question and step: neither the order of episodes nor a resume changes it.
    """

    states: Mapping[int, tuple[MatchedState, ...]]
    """The states of the live episodes of one dataset, by searches made."""
    seed: int = 0

    @property
    def identity(self) -> str:
        """The seed and a hash of the states."""
        rows = [[k, *sorted((s.question_id, s.answerability) for s in self.states[k])] for k in sorted(self.states)]
        return f"permuted, seed {self.seed}, states {hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]}"

    def value(self, live: float, first: float, view: View) -> float:
        """Return a matched state's value; the live one where no other question gives any."""
        # Searches that no live episode made have no match: the latest round that has one is used.
        for rounds in sorted((known for known in self.states if known <= view.spent.rounds), reverse=True):
            others = [s.answerability for s in self.states[rounds] if s.question_id != view.question.id]
            if others:
                return random.Random(f"{self.seed}/{view.question.id}/{view.step}").choice(others)  # noqa: S311
        return live


@dataclass(frozen=True, slots=True)
class MethodWithIntervention:
    """A method that measures answerability, deciding with another one."""

    method: Method
    intervention: Intervention
    questions: Sequence[Question] = ()
    """The questions that it may be asked, with their own ids: interventions recognise other episodes by them."""

    @property
    def name(self) -> str:
        """The method's own name: tables compare the method with itself."""
        return self.method.name

    def begin(self) -> Controller:
        """Return a controller of the method, with the intervention between measuring and deciding."""
        named = {hide_question_id(question).id: question for question in self.questions}
        return _Controller(self.method.begin(), self.intervention, named)


class _Controller:
    def __init__(self, controller: Controller, intervention: Intervention, named: Mapping[str, Question]) -> None:
        self._controller = controller
        self._intervention = intervention
        self._named = named
        self._first: float | None = None

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        measured = await self._controller.measure(view, calls)
        if measured.answerability is None or not view.passages:
            return measured
        if self._first is None:
            self._first = measured.answerability
        own = replace(view, question=self._named.get(view.question.id, view.question))
        value = self._intervention.value(measured.answerability, self._first, own)
        return replace(measured, answerability=value)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        return self._controller.decide(view, measurement)
