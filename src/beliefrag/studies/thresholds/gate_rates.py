"""How often each gate's condition holds on visited states, and which gates were never reached."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.policy import Thresholds
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.states import StateTable
from beliefrag.studies.thresholds.gates import Condition, Gate

__all__ = ["Reached", "reached"]

_DOUBT = 0.05


@dataclass(frozen=True, slots=True)
class Reached:
    """One gate on the visited states of one dataset, or of all."""

    gate: Gate
    dataset: str | None
    states: int
    questions: int
    times: int
    """At how many states its condition holds."""
    share: Estimate
    decides: Estimate
    """The share of states at which the policy decided by it."""
    nearest: tuple[Condition, ...]
    """At the state that comes nearest, or goes furthest beyond."""

    @property
    def never(self) -> bool:
        """Whether its condition holds nowhere."""
        return self.times == 0

    @property
    def always(self) -> bool:
        """Whether its condition holds everywhere."""
        return self.times == self.states

    @property
    def at_most(self) -> float | None:
        """Where it was never reached: the largest share of questions that would still leave that likely enough.

        With a larger share, none among so many questions would be seen less than one time in twenty.
        """
        return 1 - _DOUBT ** (1 / self.questions) if self.never else None


def reached(visited: StateTable, gate: Gate, thresholds: Thresholds, dataset: str | None = None) -> Reached:
    """How often one gate is reached."""
    inside = visited.inside(dataset)
    holds = visited.column(lambda state: float(gate.holds(state, thresholds)))
    decides = visited.column(lambda state: float(gate.decides(state)))
    own = [state for state, here in zip(visited.states, inside, strict=True) if here]
    return Reached(
        gate=gate,
        dataset=dataset,
        states=len(own),
        questions=visited.count(dataset),
        times=int(holds[inside].sum()),
        share=visited.mean(holds, dataset),
        decides=visited.mean(decides, dataset),
        nearest=gate.nearest(own, thresholds),
    )
