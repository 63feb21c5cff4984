"""State collectors visit the states that a calibration is fitted on. They are not methods to compare.

A collector measures and corrects as BeliefRAG does, but never takes the answer gate: it searches until the budget
ends, and at each state asks, off the budget, what the answer would be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, Method, View
from beliefrag.methods import MethodInputs
from beliefrag.methods.beliefrag import BeliefRAGMethod
from beliefrag.methods.decisions import stop
from beliefrag.policy import Calibration, LogisticAnswerability, ScheduledValue, ScoreScale, Thresholds
from beliefrag.types import Attempt, Decision, Diagnostics

_NEVER = LogisticAnswerability(-1000.0, Diagnostics(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
_ALWAYS = ScheduledValue({0: 1.0})


@dataclass(frozen=True, slots=True)
class StateCollector:
    """BeliefRAG without its answer gate, and with an answer on trial at every state."""

    score_scale: ScoreScale | None
    thresholds: Thresholds = Thresholds()
    name: str = "survey"
    reads_once: bool = False
    """Whether the episode ends after the first read."""

    def begin(self) -> Controller:
        """Return a controller for one question."""
        explorer = BeliefRAGMethod(Calibration(self.score_scale, _NEVER, _ALWAYS), self.thresholds)
        return _Collector(explorer.begin(), reads_once=self.reads_once)


class _Collector:
    def __init__(self, explorer: Controller, *, reads_once: bool) -> None:
        self._explorer = explorer
        self._reads_once = reads_once
        self._attempt: Attempt | None = None
        self._seen: tuple[str, ...] | None = None

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        measured = await self._explorer.measure(view, calls)
        if measured.attempt is not None:
            self._attempt = measured.attempt
            return measured
        ids = tuple(passage.id for passage in view.answer_window)
        if self._reads_once and not ids:
            return measured
        if ids != self._seen:
            trial = calls.off_budget()
            answer = await trial.answer(view.question, view.answer_window)
            self._seen, self._attempt = ids, Attempt(answer, trial.usage.tokens)
        return replace(measured, attempt=self._attempt)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        if self._reads_once and view.queries:
            return stop(view)
        return self._explorer.decide(view, measurement)


def collect_states(name: str, score_scale: ScoreScale | None, inputs: MethodInputs) -> Method:
    """Return the state collector of that name.

    `lean_survey` is `survey` under the default profile, and `lean_reads` ends after the first read.
    """
    return StateCollector(score_scale, inputs.thresholds, name, reads_once=name == "lean_reads")
