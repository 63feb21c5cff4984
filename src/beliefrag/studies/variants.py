"""Variants of one method side by side: the same questions, runs that differ in what is studied and in nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from beliefrag.runs.comparability import Aspect, differences
from beliefrag.runs.record import RunRecord
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import Estimate, PairedComparison, compare_over_datasets, mean_over_datasets
from beliefrag.runs.summary import MEAN
from beliefrag.studies.recording import Recording

__all__ = ["ACCURACY", "MEASURES", "Variants", "accuracy", "unlike"]

ACCURACY = "accuracy"
MEASURES = (ACCURACY, "f1", "rounds", "tokens")
_LEAST = 2
"""Questions of a dataset: one says nothing about others."""
_COMPARED = (
    *(Aspect.MODEL, Aspect.VERIFIER, Aspect.RETRIEVER, Aspect.SEED, Aspect.BUDGET, Aspect.CALIBRATION),
    *(Aspect.METHOD_OPTIONS, Aspect.PROMPTS, Aspect.CORPUS, Aspect.QUESTIONS, Aspect.THRESHOLDS),
)

Values = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By dataset, measure and question."""


@dataclass(frozen=True, slots=True)
class Variants:
    """What each variant came to, on the questions that all of them finished."""

    values: Mapping[str, Values]
    """By variant."""
    left_out: Mapping[str, int]
    """Questions of each dataset that some variant did not finish, or was not asked."""
    too_few: tuple[str, ...] = ()
    """Datasets of which so few questions are shared that they are in no number."""

    @classmethod
    def of(cls, recordings: Mapping[str, Recording], method: str, label: Label) -> Variants:
        """The episodes of one method in several runs, by what the variants are called."""
        datasets = set.intersection(*(set(recording.datasets) for recording in recordings.values()))
        values: dict[str, dict[str, dict[str, dict[str, float]]]] = {name: {} for name in recordings}
        left_out, too_few = {}, []
        for dataset in sorted(datasets):
            own = {name: _values(recording, method, dataset, label) for name, recording in recordings.items()}
            ids = [set(by_id) for each in own.values() for by_id in each.values()]
            shared, everything = set.intersection(*ids), set.union(*ids)
            if len(shared) < _LEAST:
                too_few.append(dataset)
                continue
            left_out[dataset] = len(everything - shared)
            for name, each in own.items():
                values[name][dataset] = {m: {key: by_id[key] for key in sorted(shared)} for m, by_id in each.items()}
        return cls(values, left_out, tuple(too_few))

    @property
    def datasets(self) -> tuple[str, ...]:
        """Those with enough questions."""
        return tuple(self.left_out)

    @property
    def questions(self) -> Mapping[str, int]:
        """How many questions of each dataset are compared."""
        first = next(iter(self.values.values()))
        return {dataset: len(first[dataset][ACCURACY]) for dataset in self.datasets}

    @property
    def places(self) -> tuple[str, ...]:
        """The mean over datasets first, where there are several."""
        return (MEAN, *self.datasets) if len(self.datasets) > 1 else self.datasets

    def number(self, arm: str, place: str, measure: str) -> Estimate:
        """The mean of a measure, with its interval."""
        datasets = self.datasets if place == MEAN else (place,)
        return mean_over_datasets({name: self.values[arm][name][measure] for name in datasets}).without_flat_interval()

    def against(self, arm: str, other: str, place: str = MEAN) -> PairedComparison:
        """The paired difference of two variants, the first minus the second."""
        datasets = self.datasets if place == MEAN else (place,)
        return compare_over_datasets(*({name: self.values[each][name] for name in datasets} for each in (arm, other)))

    def notes(self) -> Iterator[str]:
        """A sentence for each dataset of which questions are left out, or all."""
        if self.too_few:
            names = ", ".join(self.too_few)
            yield f"Left out, with fewer than {_LEAST} questions that every variant finished: {names}."
        for name, count in self.left_out.items():
            if count:
                yield f"Of {name} {count} questions are left out: not every variant finished them or was asked them."


def accuracy(recording: Recording, method: str, dataset: str, label: Label) -> dict[str, float]:
    """For each question 1 where the answer is right by that measure, otherwise 0, as for an abstention."""
    return {key: float(value >= 0.5) for key, value in recording.values(method, dataset, label).items()}


def unlike(one: RunRecord, other: RunRecord, *, studied: frozenset[str] = frozenset()) -> str:
    """In what two runs differ besides what is studied; empty where in nothing.

    Args:
        one: A run.
        other: Another.
        studied: Thresholds in which they are meant to differ.
    """
    found = differences(one, other, _COMPARED, free_thresholds=studied)
    return next((difference.what for difference in found), "")


def _values(recording: Recording, method: str, dataset: str, label: Label) -> dict[str, dict[str, float]]:
    found = {name: recording.values(method, dataset, name) for name in MEASURES if name != ACCURACY}
    return {ACCURACY: accuracy(recording, method, dataset, label), **found}
