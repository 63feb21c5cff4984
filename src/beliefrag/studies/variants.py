"""Variants of one method side by side, on the questions that all of them finished."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from beliefrag.runs.comparability import Aspect, differences
from beliefrag.runs.record import RunRecord
from beliefrag.runs.states import Label
from beliefrag.runs.statistics import Estimate, PairedComparison, compare_over_datasets, mean_over_datasets
from beliefrag.runs.summary import MEAN
from beliefrag.studies.recording import Recording

__all__ = ["ACCURACY", "VARIANT_MEASURES", "Variants", "find_difference"]

ACCURACY = "accuracy"
VARIANT_MEASURES = (ACCURACY, "f1", "rounds", "tokens")
_MIN_SHARED = 2
"""Questions of a dataset that all variants must share: one question says nothing about others."""

_COMPARED = (
    *(Aspect.MODEL, Aspect.VERIFIER, Aspect.RETRIEVER, Aspect.PACK, Aspect.SEED, Aspect.BUDGET, Aspect.CALIBRATION),
    *(Aspect.METHOD_OPTIONS, Aspect.PROMPTS, Aspect.CORPUS, Aspect.QUESTIONS, Aspect.THRESHOLDS),
)
"""In which two runs of variants must not differ."""

Values = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By dataset, measure and question."""


@dataclass(frozen=True, slots=True)
class Variants:
    """The numbers of each variant on the questions that all of them finished."""

    values: Mapping[str, Values]
    """Values by the name of the variant."""
    left_out: Mapping[str, int]
    """Questions of each dataset that some variant did not finish, or was not asked."""
    too_few: tuple[str, ...] = ()
    """Datasets of which so few questions are shared that they are in no number."""

    @classmethod
    def from_recordings(cls, recordings: Mapping[str, Recording], method: str, label: Label) -> Variants:
        """Takes the episodes of one method from several runs, by the names of the variants."""
        datasets = set.intersection(*(set(recording.datasets) for recording in recordings.values()))
        values: dict[str, dict[str, dict[str, dict[str, float]]]] = {name: {} for name in recordings}
        left_out, too_few = {}, []
        for dataset in sorted(datasets):
            own = {name: _read_values(recording, method, dataset, label) for name, recording in recordings.items()}
            ids = [set(by_id) for each in own.values() for by_id in each.values()]
            common, everything = set.intersection(*ids), set.union(*ids)
            if len(common) < _MIN_SHARED:
                too_few.append(dataset)
                continue
            left_out[dataset] = len(everything - common)
            for name, each in own.items():
                values[name][dataset] = {m: {key: by_id[key] for key in sorted(common)} for m, by_id in each.items()}
        return cls(values, left_out, tuple(too_few))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets with enough questions."""
        return tuple(self.left_out)

    @property
    def questions(self) -> Mapping[str, int]:
        """How many questions of each dataset are compared."""
        first = next(iter(self.values.values()))
        return {dataset: len(first[dataset][ACCURACY]) for dataset in self.datasets}

    @property
    def scopes(self) -> tuple[str, ...]:
        """What numbers are given for: the mean over datasets, where there are several, and each dataset."""
        return (MEAN, *self.datasets) if len(self.datasets) > 1 else self.datasets

    def mean(self, variant: str, scope: str, measure: str) -> Estimate:
        """Gives the mean of a measure with its interval, for a dataset or over all."""
        datasets = self.datasets if scope == MEAN else (scope,)
        return mean_over_datasets(
            {name: self.values[variant][name][measure] for name in datasets}
        ).without_flat_interval()

    def compare(self, variant: str, other: str, scope: str = MEAN) -> PairedComparison:
        """Gives the paired difference of two variants, the first minus the second."""
        datasets = self.datasets if scope == MEAN else (scope,)
        sides = ({name: self.values[each][name] for name in datasets} for each in (variant, other))
        return compare_over_datasets(*sides)

    def notes(self) -> Iterator[str]:
        """Gives a sentence for each dataset of which some or all questions are left out."""
        if self.too_few:
            names = ", ".join(self.too_few)
            yield f"Left out, with fewer than {_MIN_SHARED} questions that every variant finished: {names}."
        for name, count in self.left_out.items():
            if count:
                yield f"Of {name} {count} questions are left out: not every variant finished them or was asked them."


def find_difference(one: RunRecord, other: RunRecord, *, studied: frozenset[str] = frozenset()) -> str:
    """Says in what two runs differ besides what is studied; empty where in nothing.

    Args:
        one: A run.
        other: Another run.
        studied: Thresholds in which they are meant to differ.
    """
    found = differences(one, other, _COMPARED, free_thresholds=studied)
    return next((difference.what for difference in found), "")


def _read_values(recording: Recording, method: str, dataset: str, label: Label) -> dict[str, dict[str, float]]:
    found = {name: recording.values(method, dataset, name) for name in VARIANT_MEASURES if name != ACCURACY}
    return {ACCURACY: recording.accuracy(method, dataset, label), **found}
