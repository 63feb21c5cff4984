"""How often each gate of the branch policy fires on visited states, and how near a state comes to each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from beliefrag.policy import Thresholds
from beliefrag.runs.states import State
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.state_table import StateTable

__all__ = ["GATES", "GateCondition", "GateRate", "PolicyGate", "measure_gate"]

_DOUBT = 0.05


@dataclass(frozen=True, slots=True)
class GateCondition:
    """One comparison of a gate at one state."""

    what: str
    value: float
    relation: Literal["at least", "below", "above"]
    threshold: float

    @property
    def margin(self) -> float:
        """How far the value is beyond its threshold; below 0 where the comparison fails."""
        return self.threshold - self.value if self.relation == "below" else self.value - self.threshold

    @property
    def holds(self) -> bool:
        """Whether the comparison is true, as the policy compares."""
        return self.margin >= 0 if self.relation == "at least" else self.margin > 0

    def __str__(self) -> str:
        return f"{self.what} {self.value:.3g} (needs {self.relation} {self.threshold:g})"


@dataclass(frozen=True, slots=True)
class PolicyGate:
    """One gate of the branch policy: it opens where all its conditions hold."""

    name: str
    opens: str
    """What follows when it decides."""
    branches: tuple[str, ...]
    """The branches of the policy that it decides by."""
    conditions: Callable[[State, Thresholds], tuple[GateCondition, ...]]

    def holds(self, state: State, thresholds: Thresholds) -> bool:
        """Says whether its conditions are met, whatever gate comes before it and whatever is legal."""
        return all(condition.holds for condition in self.conditions(state, thresholds))

    def decides(self, state: State) -> bool:
        """Says whether the policy decided by this gate."""
        return state.branch in self.branches

    def nearest(self, states: Iterable[State], thresholds: Thresholds) -> tuple[GateCondition, ...]:
        """Gives the conditions at the state that comes nearest: where the one that fails most fails least."""
        return max(
            (self.conditions(state, thresholds) for state in states),
            key=lambda found: min(condition.margin for condition in found),
        )


def _require(value: float | None) -> float:
    if value is None:
        raise ValueError("a state without the run's own probabilities says nothing about its gates")
    return value


def _answer_conditions(s: State, t: Thresholds) -> tuple[GateCondition, ...]:
    return (
        GateCondition("answerability", _require(s.answerability), "at least", t.answer),
        GateCondition("conflict", s.belief.conflict, "below", t.conflict),
    )


def _novelty_conditions(s: State, t: Thresholds) -> tuple[GateCondition, ...]:
    return (
        GateCondition("novelty", s.diagnostics.novelty, "below", t.novelty),
        GateCondition("searches made", float(s.rounds), "at least", 1.0),
    )


def _abstain_conditions(s: State, t: Thresholds) -> tuple[GateCondition, ...]:
    return (
        GateCondition("sufficiency", s.belief.sufficiency, "below", t.abstain_sufficiency),
        GateCondition("uncertainty", s.belief.uncertainty, "above", t.abstain_uncertainty),
        GateCondition("answerability", _require(s.answerability), "below", t.abstain_answerability),
    )


_IN_ORDER = (
    PolicyGate("answer", "ANSWER", ("answer",), _answer_conditions),
    PolicyGate(
        "conflict",
        "a correction",
        ("correct-conflict",),
        lambda s, t: (GateCondition("conflict", s.belief.conflict, "at least", t.conflict),),
    ),
    PolicyGate(
        "reliability",
        "a correction",
        ("correct-unreliable",),
        lambda s, t: (GateCondition("reliability", s.belief.reliability, "below", t.reliability),),
    ),
    PolicyGate(
        "flagged",
        "a correction",
        ("correct-flagged",),
        lambda s, t: (GateCondition("flagged passages", float(s.flagged), "at least", 1.0),),
    ),
    PolicyGate(
        "retrieval value",
        "RETRIEVE",
        ("retrieve", "rewrite"),
        lambda s, t: (GateCondition("retrieval value", _require(s.retrieval_value), "at least", t.retrieval_value),),
    ),
    PolicyGate("novelty", "REWRITE first", ("rewrite",), _novelty_conditions),
    PolicyGate("abstain", "ABSTAIN", ("abstain",), _abstain_conditions),
)
GATES: Mapping[str, PolicyGate] = {gate.name: gate for gate in _IN_ORDER}
"""All gates, in the order in which a reader meets them."""


@dataclass(frozen=True, slots=True)
class GateRate:
    """How often one gate fires on the visited states of one dataset, or of all."""

    gate: PolicyGate
    dataset: str | None
    states: int
    questions: int
    times: int
    """At how many states its condition holds."""
    share: Estimate
    decides: Estimate
    """The share of states at which the policy decided by it."""
    nearest: tuple[GateCondition, ...]
    """Its conditions at the state that comes nearest, or goes furthest beyond."""

    @property
    def never(self) -> bool:
        """Whether its condition holds nowhere."""
        return self.times == 0

    @property
    def always(self) -> bool:
        """Whether its condition holds everywhere."""
        return self.times == self.states

    @property
    def upper_bound(self) -> float | None:
        """Gives, for a gate that never fired, the largest share of questions for which that is still likely enough.

        With a larger share, none among so many questions would be seen less than one time in twenty.
        """
        return 1 - _DOUBT ** (1 / self.questions) if self.never else None


def measure_gate(states: StateTable, gate: PolicyGate, thresholds: Thresholds, dataset: str | None = None) -> GateRate:
    """Measures how often one gate fires on the states of a dataset, or on all."""
    inside = states.is_in(dataset)
    holds = states.column(lambda state: float(gate.holds(state, thresholds)))
    decides = states.column(lambda state: float(gate.decides(state)))
    own = [state for state, here in zip(states.states, inside, strict=True) if here]
    return GateRate(
        gate=gate,
        dataset=dataset,
        states=len(own),
        questions=states.count_questions(dataset),
        times=int(holds[inside].sum()),
        share=states.mean(holds, dataset),
        decides=states.mean(decides, dataset),
        nearest=gate.nearest(own, thresholds),
    )
