"""The measures of the robustness study: answers by noise, what false passages do, and the calibrator by source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from beliefrag.calibration.examples import Example, Examples
from beliefrag.calibration.quality import auc
from beliefrag.record import EpisodeSummary
from beliefrag.runs.record import thresholds_of
from beliefrag.runs.states import Label, Trajectory
from beliefrag.runs.statistics import (
    Estimate,
    Floats,
    compare,
    estimate_from_resamples,
    mean_estimate,
    random_generator,
)
from beliefrag.studies.state_table import StateTable
from beliefrag.studies.study import Recording

__all__ = [
    "COMPARED",
    "METHOD",
    "MIN_QUESTIONS",
    "NOISE_LEVELS",
    "RATES",
    "EvidenceSource",
    "FalseEvidence",
    "NoiseLevels",
    "auc_difference",
    "mean_auc",
]

METHOD = "beliefrag"
COMPARED = ("static", "iterative", "crag", METHOD)
"""The methods that the text of the paper gives numbers for."""
NOISE_LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Shares of irrelevant passages."""
RATES = ("follows_false", "recovers_true", "abstained", "false_read", "support")
"""What is measured where passages are false."""
MIN_QUESTIONS = 5
"""Questions with a right answer, and as many with a wrong one, that an AUC needs to mean anything."""

Values = Mapping[str, Mapping[str, float]]
"""By method and question."""


def _read_values(recording: Recording, method: str, measure: str) -> dict[str, float]:
    return {
        f"{dataset}/{key}": value
        for dataset in recording.datasets
        for key, value in recording.values(method, dataset, measure).items()
    }


def _difference(values: Values, method: str, name: str) -> Estimate:
    """BeliefRAG minus a method, on the same questions."""
    own, other = ({name: values[each]} for each in (METHOD, method))
    return compare(own, other).measures[name].difference.without_flat_interval()


@dataclass(frozen=True, slots=True)
class NoiseLevels:
    """The values of the methods at each level of noise, on the questions that all finished at all levels."""

    levels: Mapping[float, Mapping[str, Values]]
    """By the share of noise and measure (f1, accuracy, support); empty where too few questions were finished."""
    left_out: int
    """Questions that only some of the methods finished, or only at some levels."""

    @classmethod
    def from_recordings(cls, recordings: Mapping[float, Recording], label: Label) -> NoiseLevels:
        """Take the values from the runs, by level."""
        found = {
            (level, method): {
                "f1": _read_values(recording, method, "f1"),
                "accuracy": {key: float(v >= 0.5) for key, v in _read_values(recording, method, label).items()},
                "support": _read_values(recording, method, "evidence_recall"),
            }
            for level, recording in recordings.items()
            for method in COMPARED
        }
        ids = [set(each[measure]) for each in found.values() for measure in ("f1", "accuracy")]
        common = sorted(set.intersection(*ids))
        left_out = len(set.union(*ids)) - len(common)
        if len(common) < 2:
            return cls({}, left_out)
        levels = {
            level: {
                measure: {
                    method: {key: own[key] for key in common if key in (own := found[level, method][measure])}
                    for method in COMPARED
                }
                for measure in ("f1", "accuracy", "support")
            }
            for level in recordings
        }
        return cls(levels, left_out)

    @property
    def questions(self) -> int:
        """How many questions are compared."""
        return len(self.levels[0.0]["f1"][METHOD]) if self.levels else 0

    def mean(self, method: str, level: float, measure: str) -> Estimate:
        """Return the mean of a method in one measure at a level of noise."""
        return mean_estimate(self.levels[level][measure][method]).without_flat_interval()

    def lead(self, method: str, level: float, measure: str) -> Estimate | None:
        """Return BeliefRAG minus this method, on the same questions; None for BeliefRAG itself."""
        return None if method == METHOD else _difference(self.levels[level][measure], method, measure)

    def loss(self, method: str) -> Estimate:
        """Return F1 at most noise minus F1 without any, on the same questions."""
        worst, clean = ({"f1": self.levels[level]["f1"][method]} for level in (max(NOISE_LEVELS), 0.0))
        return compare(worst, clean).measures["f1"].difference.without_flat_interval()


@dataclass(frozen=True, slots=True)
class FalseEvidence:
    """What false passages do to the methods, on the questions that all of them finished."""

    values: Mapping[str, Values]
    """By measure (see `RATES`), method and question."""
    questions: int
    left_out: int
    """Questions that only some of the methods finished."""

    @classmethod
    def from_recording(cls, recording: Recording) -> FalseEvidence:
        """Take the values of all questions that have a false answer."""
        told = {
            method: {
                f"{e.key.dataset}/{e.key.question_id}": e
                for e in recording.episodes_of(method)
                if e.finished and e.metrics.get("follows_false") is not None
            }
            for method in COMPARED
        }
        common = sorted(set.intersection(*map(set, told.values())))
        values = {
            rate: {
                method: {key: value for key in common if (value := _measure_rate(own[key], rate)) is not None}
                for method, own in told.items()
            }
            for rate in RATES
        }
        return cls(values, len(common), len(set.union(*map(set, told.values()))) - len(common))

    def rate(self, method: str, measure: str) -> Estimate | None:
        """Return the share of questions, or of their supporting passages; None where there is none."""
        own = self.values[measure][method]
        return mean_estimate(own).without_flat_interval() if own else None

    def lead(self, method: str, measure: str) -> Estimate | None:
        """Return BeliefRAG minus this method, on the same questions; None where there is none."""
        if not self.values[measure][method] or method == METHOD:
            return None
        return _difference(self.values[measure], method, measure)


def _measure_rate(episode: EpisodeSummary, rate: str) -> float | None:
    metrics = episode.metrics
    if rate == "abstained":
        return float(episode.outcome == "abstained")
    if rate == "false_read":
        return float((metrics["false_read"] or 0.0) > 0)
    if rate == "support":
        return metrics.get("evidence_recall")
    return float(metrics[rate] or 0.0)


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """States of BeliefRAG on evidence of one source."""

    name: str
    examples: Mapping[str, Examples]
    """By dataset, the states with an answer that is known to be right or wrong."""
    conflict: Estimate | None
    """Mean belief in conflict at states with evidence."""
    gate: Estimate | None
    """Share of such states at which conflict is at its threshold."""

    @classmethod
    def from_recording(cls, name: str, recording: Recording, label: Label) -> EvidenceSource:
        """Take the states of a run.

        The states with a drafted answer count. Where the verifier drafts none, the last state of each episode does,
        with the answer that was given.
        """
        own = recording.trajectories_of(METHOD)
        threshold = thresholds_of(recording.run).conflict
        states = StateTable(own)
        conflict = states.column(lambda state: state.belief.conflict)
        return cls(
            name=name,
            examples={
                d: _find_examples([t for t in own if t.dataset == d], recording, label) for d in recording.datasets
            },
            conflict=states.mean(conflict) if len(states) else None,
            gate=states.mean((conflict >= threshold).astype(np.float64)) if len(states) else None,
        )

    @property
    def usable(self) -> dict[str, Examples]:
        """The datasets with enough questions answered right and enough answered wrong."""
        return {name: own for name, own in self.examples.items() if _has_enough(own)}

    @property
    def states(self) -> int:
        """How many states have a known outcome."""
        return sum(len(own) for own in self.examples.values())


def _find_examples(trajectories: Sequence[Trajectory], recording: Recording, label: Label) -> Examples:
    drafted = [
        Example(t.dataset, t.question_id, state, bool(state.correct(label)))
        for t in trajectories
        for state in t.states
        if state.retained and state.answerability is not None and state.correct(label) is not None
    ]
    if drafted:
        return Examples(drafted)
    ended = []
    for t in trajectories:
        given = recording.values(METHOD, t.dataset, label).get(t.question_id)
        last = t.states[-1]
        if given is not None and last.retained and last.answerability is not None:
            ended.append(Example(t.dataset, t.question_id, last, given >= 0.5))
    return Examples(ended)


def mean_auc(source: EvidenceSource) -> Estimate | None:
    """Return the AUC of answerability, the simple mean over datasets; None where no dataset has enough questions."""
    if not source.usable:
        return None
    value, drawn = _resample_auc(source.usable)
    return estimate_from_resamples(value, drawn, questions=_fewest_questions(source.usable))


def auc_difference(one: EvidenceSource, other: EvidenceSource) -> Estimate | None:
    """Return the AUC on one source minus that on the other; None where either has none."""
    if not (one.usable and other.usable):
        return None
    (value, drawn), (against, drawn_against) = _resample_auc(one.usable), _resample_auc(other.usable)
    # The sources have no question in common: their draws are put together in another order.
    shuffled = random_generator(1).permutation(drawn_against)
    questions = min(_fewest_questions(one.usable), _fewest_questions(other.usable))
    return estimate_from_resamples(value - against, drawn - shuffled, questions=questions)


def _resample_auc(usable: Mapping[str, Examples]) -> tuple[float, Floats]:
    values, drawn = [], []
    for place, own in enumerate(usable.values()):
        p = np.array([example.state.answerability for example in own.each], dtype=np.float64)
        values.append(float(auc(p, own.outcomes, own.weights)))
        # Every dataset is drawn by the same seed: without another order their draws would go up and down together.
        resamples = own.resample(partial(auc, p, own.outcomes))
        drawn.append(random_generator((0, place)).permutation(resamples))
    return float(np.mean(values)), np.mean(drawn, axis=0)


def _fewest_questions(usable: Mapping[str, Examples]) -> int:
    return min(len(own.question_ids) for own in usable.values())


def _has_enough(examples: Examples) -> bool:
    # States of one question are not independent: ten right ones of one question say little.
    return all(
        len({example.question_id for example in examples.each if example.positive is right}) >= MIN_QUESTIONS
        for right in (True, False)
    )
