"""What operating points give on recorded questions, the frontier of quality against tokens, and the choice of a point.

A point has numbers for all questions of a part or for none. The questions that stay within the recordings are those
that need little, so a mean over them alone would flatter the point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from beliefrag.calibration.policy_replay import CachedReplay, ReplayedEnding
from beliefrag.calibration.tuning.recorded import Questions
from beliefrag.calibration.tuning.recorded_decisions import MissingStep, find_missing_step
from beliefrag.policy import Calibration, Thresholds
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import MEAN_RESAMPLES, Estimate, mean_estimate, mean_over_datasets, pareto_front
from beliefrag.types import Action

__all__ = [
    "OperatingPoint",
    "PointEvaluator",
    "TuningGoal",
    "UnknownPoint",
    "Values",
    "average",
    "choose_point",
    "find_frontier",
]


Values = Mapping[str, Mapping[str, float]]
"""One value for each question, by dataset and question id."""

_Outcome = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Thresholds, with what they give on the questions of one part."""

    thresholds: Thresholds
    values: Mapping[str, Values]
    """`quality`, `tokens`, `rounds` and `abstained` of every question."""
    means: Mapping[str, Estimate]
    """The same four over questions, with their intervals; over datasets where there are several."""

    @property
    def quality(self) -> float:
        """The mean of the measure."""
        return self.means["quality"].value

    @property
    def tokens(self) -> float:
        """Mean tokens for a question."""
        return self.means["tokens"].value


@dataclass(frozen=True, slots=True)
class UnknownPoint:
    """An operating point whose result is not known, because it takes a step that nobody recorded."""

    thresholds: Thresholds
    missing_steps: Mapping[tuple[MissingStep, Action], int]
    """How many questions lack a step in their recording, by the step and the action."""
    questions: int
    """How many questions there are."""

    @property
    def affected(self) -> int:
        """How many questions lack a step."""
        return sum(self.missing_steps.values())

    @property
    def main_missing_step(self) -> tuple[MissingStep, Action]:
        """The step that most of them lack, and the action at which it is lacking."""
        return max(self.missing_steps, key=lambda each: (self.missing_steps[each], each))


class PointEvaluator:
    """Evaluates operating points on the questions of one part.

    Args:
        questions: The questions with their recordings.
        calibration: What to decide with.
        measure: What says how good an answer is.
    """

    def __init__(self, questions: Questions, calibration: Calibration, measure: Label) -> None:
        self._places = [(dataset, key) for dataset, by_id in questions.items() for key in by_id]
        self._replays = [
            CachedReplay(recordings, calibration) for by_id in questions.values() for recordings in by_id.values()
        ]
        self._measure = measure
        # Many points end every question at the same state, and resampling is what takes long.
        self._known: dict[tuple[_Outcome, ...], tuple[Mapping[str, Values], Mapping[str, Estimate]]] = {}

    def evaluate(self, thresholds: Thresholds) -> OperatingPoint | UnknownPoint:
        """Gives the result of the point, or says why it is not known."""
        outcomes: list[_Outcome] = []
        missing_steps: Counter[tuple[MissingStep, Action]] = Counter()
        for replay in self._replays:
            end = replay.end(thresholds)
            if isinstance(end, ReplayedEnding):
                outcomes.append(self._outcome(end))
            else:
                missing_steps[find_missing_step(end, replay.recordings), end.action] += 1
        if missing_steps:
            return UnknownPoint(thresholds, missing_steps, len(outcomes) + missing_steps.total())
        key = tuple(outcomes)
        if key not in self._known:
            values = self._by_question(key)
            self._known[key] = values, {name: average(found) for name, found in values.items()}
        return OperatingPoint(thresholds, *self._known[key])

    def _outcome(self, end: ReplayedEnding) -> _Outcome:
        abstained = end.action is Action.ABSTAIN
        quality = 0.0 if abstained else end.state.scores[self._measure]
        return quality, float(end.tokens), float(end.state.rounds), float(abstained)

    def _by_question(self, outcomes: tuple[_Outcome, ...]) -> dict[str, Values]:
        values: dict[str, dict[str, dict[str, float]]] = {}
        for (dataset, key), outcome in zip(self._places, outcomes, strict=True):
            for name, value in zip(("quality", "tokens", "rounds", "abstained"), outcome, strict=True):
                values.setdefault(name, {}).setdefault(dataset, {})[key] = value
        return dict(values)


def average(values: Values, *, resamples: int = MEAN_RESAMPLES) -> Estimate:
    """Gives the mean over questions, or over datasets where there are several, with its interval."""
    if len(values) == 1:
        return mean_estimate(next(iter(values.values())), resamples=resamples)
    return mean_over_datasets(values, resamples=resamples)


@dataclass(frozen=True, slots=True)
class TuningGoal:
    """The goal that a point is chosen for: exactly one of the two limits."""

    max_tokens: float | None = None
    """Choose the greatest quality at no more mean tokens per question than this."""
    min_quality: float | None = None
    """Choose the fewest tokens at a mean quality of no less than this."""

    def __post_init__(self) -> None:
        if (self.max_tokens is None) == (self.min_quality is None):
            raise ValueError("a goal is a token budget or a floor of quality, one of the two")


def find_frontier(points: Iterable[OperatingPoint], own: Thresholds) -> list[OperatingPoint]:
    """Gives the points that no other one beats in quality without costing more, from the cheapest to the best.

    Of points that give the same the one nearest to the run's own thresholds stands for all.
    """
    nearest: dict[tuple[float, float], OperatingPoint] = {}
    for point in sorted(points, key=lambda p: (p.tokens, p.quality, _distance(p, own))):
        nearest.setdefault((point.tokens, point.quality), point)
    if not nearest:
        return []
    tokens, quality = np.array(list(nearest)).T
    return [point for point, kept in zip(nearest.values(), pareto_front(tokens, quality), strict=True) if kept]


def choose_point(front: Sequence[OperatingPoint], goal: TuningGoal) -> OperatingPoint | None:
    """Chooses the point of a frontier that meets the goal best; None where no point meets it."""
    if goal.max_tokens is not None:
        affordable = [point for point in front if point.tokens <= goal.max_tokens]
        return affordable[-1] if affordable else None
    floor = goal.min_quality or 0.0
    return next((point for point in front if point.quality >= floor), None)


def _distance(point: OperatingPoint, own: Thresholds) -> tuple[int, float, tuple[float, ...]]:
    """Says how far a point lies from the run's own: switches count before numbers, and the last part breaks ties."""
    here, there = astuple(point.thresholds), astuple(own)
    pairs = list(zip(here, there, strict=True))
    switches = sum(a is not b for a, b in pairs if isinstance(a, bool))
    numbers = [(a or 0.0, b or 0.0) for a, b in pairs if not isinstance(a, bool)]
    return switches, sum(abs(a - b) for a, b in numbers), tuple(a for a, _ in numbers)
