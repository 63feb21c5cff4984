"""Walks one question for many thresholds, and walks again only where that could end otherwise.

A threshold acts by lying on one side or the other of the numbers that a walk meets. So the end of a walk holds for all
thresholds on the same sides of these numbers: a box, and a sweep finds most of its points in boxes that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from beliefrag.calibration.policy_replay import Ended, LeftTheRecord, walk
from beliefrag.calibration.tuning.grid import corrects
from beliefrag.policy import Answerability, Calibration, RetrievalValue, Thresholds
from beliefrag.runs.states import Trajectory

__all__ = ["Walks"]


class _Fitted(Protocol):
    def probability(self, *args: Any, **kwargs: Any) -> float: ...


class _Noted:
    """A fitted function that notes what it was last asked for."""

    def __init__(self, fitted: Any) -> None:
        self._fitted: _Fitted = fitted
        self.given: list[float] = []

    def probability(self, *args: Any, **kwargs: Any) -> float:
        self.given.append(self._fitted.probability(*args, **kwargs))
        return self.given[-1]


@dataclass(frozen=True, slots=True)
class _Box:
    """Thresholds from which a walk ends the same: above the first number of each pair, up to the second."""

    answer: tuple[float, float]
    retrieval_value: tuple[float, float]
    novelty: tuple[float, float]

    def holds(self, t: Thresholds) -> bool:
        return (
            self.answer[0] < t.answer <= self.answer[1]
            and self.retrieval_value[0] < t.retrieval_value <= self.retrieval_value[1]
            and self.novelty[0] < t.novelty <= self.novelty[1]
        )


class Walks:
    """The walks over the recordings of one question, for thresholds that differ in what a grid sweeps.

    Args:
        recordings: Of the question.
        calibration: What to decide with.
    """

    def __init__(self, recordings: Sequence[Trajectory], calibration: Calibration) -> None:
        self.recordings = recordings
        self._answerability = _Noted(calibration.answerability)
        self._retrieval_value = _Noted(calibration.retrieval_value)
        self._known: dict[bool, list[tuple[_Box, Ended | LeftTheRecord]]] = {True: [], False: []}

    def end(self, thresholds: Thresholds) -> Ended | LeftTheRecord:
        """Where the walk with these thresholds ends."""
        known = self._known[corrects(thresholds)]
        for box, end in known:
            if box.holds(thresholds):
                return end
        self._answerability.given.clear()
        self._retrieval_value.given.clear()
        end = walk(
            self.recordings,
            cast("Answerability", self._answerability),
            cast("RetrievalValue", self._retrieval_value),
            thresholds,
        )
        novelties = [state.diagnostics.novelty for each in self.recordings for state in each.states]
        box = _Box(
            answer=_around(thresholds.answer, self._answerability.given),
            retrieval_value=_around(thresholds.retrieval_value, self._retrieval_value.given),
            novelty=_around(thresholds.novelty, novelties),
        )
        known.append((box, end))
        return end


def _around(threshold: float, met: Sequence[float]) -> tuple[float, float]:
    """How far a threshold may move until it changes sides with a number: all below it stay below, all others not."""
    below = [number for number in met if number < threshold]
    return max(below, default=float("-inf")), min((n for n in met if n >= threshold), default=float("inf"))
