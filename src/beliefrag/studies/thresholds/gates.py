"""The gates of the branch policy: when each one's condition holds, and how near a state comes to it (SPEC 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from beliefrag.policy import Thresholds
from beliefrag.runs.states import State

__all__ = ["GATES", "Condition", "Gate"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a gate at one state."""

    what: str
    value: float
    relation: Literal["at least", "below", "above"]
    threshold: float

    @property
    def margin(self) -> float:
        """How far the value is beyond its threshold; below 0 where the comparison fails by so much."""
        return self.threshold - self.value if self.relation == "below" else self.value - self.threshold

    @property
    def holds(self) -> bool:
        """As the policy compares."""
        return self.margin >= 0 if self.relation == "at least" else self.margin > 0

    def __str__(self) -> str:
        return f"{self.what} {self.value:.3g} (needs {self.relation} {self.threshold:g})"


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate: it opens where all its conditions hold."""

    name: str
    opens: str
    """What follows when it decides."""
    branches: tuple[str, ...]
    """Those of the policy that it decides by."""
    conditions: Callable[[State, Thresholds], tuple[Condition, ...]]

    def holds(self, state: State, thresholds: Thresholds) -> bool:
        """Whether the condition of the gate is met, whatever gate comes before it and whatever is legal."""
        return all(condition.holds for condition in self.conditions(state, thresholds))

    def decides(self, state: State) -> bool:
        """Whether it was by this gate that the policy decided."""
        return state.branch in self.branches

    def nearest(self, states: Iterable[State], thresholds: Thresholds) -> tuple[Condition, ...]:
        """The conditions at the state that comes nearest to opening it: where the one that fails most fails least."""
        return max(
            (self.conditions(state, thresholds) for state in states),
            key=lambda found: min(condition.margin for condition in found),
        )


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a state without the run's own probabilities says nothing about its gates")
    return value


def _answer(s: State, t: Thresholds) -> tuple[Condition, ...]:
    return (
        Condition("answerability", _known(s.answerability), "at least", t.answer),
        Condition("conflict", s.belief.conflict, "below", t.conflict),
    )


def _novelty(s: State, t: Thresholds) -> tuple[Condition, ...]:
    return (
        Condition("novelty", s.diagnostics.novelty, "below", t.novelty),
        Condition("searches made", float(s.rounds), "at least", 1.0),
    )


def _abstain(s: State, t: Thresholds) -> tuple[Condition, ...]:
    return (
        Condition("sufficiency", s.belief.sufficiency, "below", t.abstain_sufficiency),
        Condition("uncertainty", s.belief.uncertainty, "above", t.abstain_uncertainty),
        Condition("answerability", _known(s.answerability), "below", t.abstain_answerability),
    )


_IN_ORDER = (
    Gate("answer", "ANSWER", ("answer",), _answer),
    Gate(
        "conflict",
        "a correction",
        ("correct-conflict",),
        lambda s, t: (Condition("conflict", s.belief.conflict, "at least", t.conflict),),
    ),
    Gate(
        "reliability",
        "a correction",
        ("correct-unreliable",),
        lambda s, t: (Condition("reliability", s.belief.reliability, "below", t.reliability),),
    ),
    Gate(
        "flagged",
        "a correction",
        ("correct-flagged",),
        lambda s, t: (Condition("flagged passages", float(s.flagged), "at least", 1.0),),
    ),
    Gate(
        "retrieval value",
        "RETRIEVE",
        ("retrieve", "rewrite"),
        lambda s, t: (Condition("retrieval value", _known(s.retrieval_value), "at least", t.retrieval_value),),
    ),
    Gate("novelty", "REWRITE first", ("rewrite",), _novelty),
    Gate("abstain", "ABSTAIN", ("abstain",), _abstain),
)

GATES: Mapping[str, Gate] = {gate.name: gate for gate in _IN_ORDER}
"""All gates, in the order in which a reader meets them."""
