"""Survey: visits the states that a calibration is fitted on (SPEC 4). It is no method to compare with others.

It measures and corrects as BeliefRAG does, but never takes the answer gate: it searches until the budget ends, and at
each state asks, aside, what the answer would be. So states of all rounds come up, before and after corrections, whether
or not some calibration would have ended the episode there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from beliefrag.calibration import Calibration
from beliefrag.engine.controller import Controller, Measurement, Method, View
from beliefrag.engine.model_calls import ModelCalls
from beliefrag.methods.beliefrag import BeliefRAGMethod
from beliefrag.policy import LogisticAnswerability, ScheduledValue, ScoreScale, Thresholds
from beliefrag.types import Attempt, Decision, Diagnostics

__all__ = ["STATE_COLLECTORS", "StateCollector"]

_NEVER = LogisticAnswerability(-1000.0, Diagnostics(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
_ALWAYS = ScheduledValue({0: 1.0})


@dataclass(frozen=True, slots=True)
class StateCollector:
    """BeliefRAG without its answer gate, and with an answer on trial at every state."""

    score_scale: ScoreScale
    thresholds: Thresholds = Thresholds()
    name: str = "survey"

    def begin(self) -> Controller:
        """A controller for one question."""
        explorer = BeliefRAGMethod(Calibration(self.score_scale, _NEVER, _ALWAYS), self.thresholds)
        return _Surveyor(explorer.begin())


class _Surveyor:
    def __init__(self, explorer: Controller) -> None:
        self._explorer = explorer
        self._attempt: Attempt | None = None
        self._seen: tuple[str, ...] | None = None

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        measured = await self._explorer.measure(view, calls)
        ids = tuple(passage.id for passage in view.answer_window)
        if ids != self._seen:
            aside = calls.aside()
            answer = await aside.answer(view.question, view.answer_window)
            self._seen, self._attempt = ids, Attempt(answer, aside.usage.tokens)
        return replace(measured, attempt=self._attempt)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        return self._explorer.decide(view, measurement)


def _uncorrected(score_scale: ScoreScale, thresholds: Thresholds) -> Method:
    off = replace(thresholds, correct_conflict=False, correct_unreliable=False, correct_flagged=False)
    return StateCollector(score_scale, off, "survey_uncorrected")


STATE_COLLECTORS: Mapping[str, Callable[[ScoreScale, Thresholds], Method]] = {
    "survey": StateCollector,
    "survey_uncorrected": _uncorrected,
}
"""The two ways to visit states. The second never corrects, so that what corrections do can be seen beside the first."""
