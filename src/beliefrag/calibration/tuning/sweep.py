"""What an operating point gives on recorded questions: how good the answers are, and what they cost.

A point is told for all questions of a part or for none. The questions that stay on the record are those that need
little, so a mean over them alone would flatter the point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from beliefrag.calibration.policy_replay import Ended
from beliefrag.calibration.tuning.decisions import Departure, departure
from beliefrag.calibration.tuning.recorded import Questions
from beliefrag.calibration.tuning.walks import Walks
from beliefrag.policy import Calibration, Thresholds
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import MEAN_RESAMPLES, Estimate, mean_estimate, mean_over_datasets
from beliefrag.types import Action

__all__ = ["Point", "Refusal", "Trial", "Values", "mean"]

Values = Mapping[str, Mapping[str, float]]
"""One value for each question, by dataset and question id."""

_Outcome = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Point:
    """An operating point with what it gives."""

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
class Refusal:
    """An operating point that does what nobody recorded."""

    thresholds: Thresholds
    departures: Mapping[tuple[Departure, Action], int]
    """How many questions leave the record, by how and at which action."""
    questions: int
    """How many there are."""

    @property
    def leaving(self) -> int:
        """How many questions leave the record."""
        return sum(self.departures.values())

    @property
    def main(self) -> tuple[Departure, Action]:
        """How most of them leave it."""
        return max(self.departures, key=lambda each: (self.departures[each], each))


class Trial:
    """Tries operating points on the questions of one part.

    Args:
        questions: With their recordings.
        calibration: What to decide with.
        measure: What says how good an answer is.
    """

    def __init__(self, questions: Questions, calibration: Calibration, measure: Label) -> None:
        self._places = [(dataset, key) for dataset, by_id in questions.items() for key in by_id]
        self._walks = [Walks(recordings, calibration) for by_id in questions.values() for recordings in by_id.values()]
        self._measure = measure
        # Many points end every question at the same state, and resampling is what takes long.
        self._known: dict[tuple[_Outcome, ...], tuple[Mapping[str, Values], Mapping[str, Estimate]]] = {}

    def of(self, thresholds: Thresholds) -> Point | Refusal:
        """What the point gives, or why that is not known."""
        outcomes: list[_Outcome] = []
        departures: Counter[tuple[Departure, Action]] = Counter()
        for walks in self._walks:
            end = walks.end(thresholds)
            if isinstance(end, Ended):
                outcomes.append(self._outcome(end))
            else:
                departures[departure(end, walks.recordings), end.action] += 1
        if departures:
            return Refusal(thresholds, departures, len(outcomes) + departures.total())
        key = tuple(outcomes)
        if key not in self._known:
            values = self._by_question(key)
            self._known[key] = values, {name: mean(found) for name, found in values.items()}
        return Point(thresholds, *self._known[key])

    def _outcome(self, end: Ended) -> _Outcome:
        abstained = end.action is Action.ABSTAIN
        quality = 0.0 if abstained else end.state.scores[self._measure]
        return quality, float(end.tokens), float(end.state.rounds), float(abstained)

    def _by_question(self, outcomes: tuple[_Outcome, ...]) -> dict[str, Values]:
        values: dict[str, dict[str, dict[str, float]]] = {}
        for (dataset, key), outcome in zip(self._places, outcomes, strict=True):
            for name, value in zip(("quality", "tokens", "rounds", "abstained"), outcome, strict=True):
                values.setdefault(name, {}).setdefault(dataset, {})[key] = value
        return dict(values)


def mean(values: Values, *, resamples: int = MEAN_RESAMPLES) -> Estimate:
    """The mean over questions, or over datasets where there are several, with its interval."""
    if len(values) == 1:
        return mean_estimate(next(iter(values.values())), resamples=resamples)
    return mean_over_datasets(values, resamples=resamples)
