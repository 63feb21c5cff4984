"""What the pages of a run show beside its episodes: means with intervals, and paired differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from pydantic import computed_field

from beliefrag.methods import METHODS
from beliefrag.record import EpisodeKey, EpisodeSummary
from beliefrag.runs.record import RunRecord
from beliefrag.runs.statistics import PairedComparison, compare, compare_over_datasets
from beliefrag.runs.summary import MEAN, Summary, measure_values
from beliefrag.web.view.schema import PageModel

_Values = Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]
"""F1 and tokens of each question by method and dataset."""


class _OfMethod(PageModel):
    dataset: str
    method: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def method_title(self) -> str:
        """The method's name in tables."""
        return METHODS.title(self.method)


class EstimateView(PageModel):
    """A mean with its interval."""

    value: float
    low: float | None
    high: float | None
    questions: int | None
    has_few_questions: bool


class CellView(_OfMethod):
    """One method on one dataset, or on the mean of all."""

    episodes: int
    asked: int
    failed: int
    outcomes: Mapping[str, int]
    measures: Mapping[str, EstimateView | None]
    tokens_beside_f1: EstimateView | None


class FailureView(_OfMethod):
    """Episodes that failed for one cause."""

    cause: str
    question_ids: tuple[str, ...]


class RunOverview(PageModel):
    """The numbers of a run."""

    first_line: str
    complete: bool
    methods: tuple[str, ...]
    cells: tuple[CellView, ...]
    failures: tuple[FailureView, ...]
    made: Mapping[str, str]


class DifferenceView(PageModel):
    """How far one method's mean lies from another's, on the questions that both finished."""

    difference: EstimateView
    is_clear: bool


class PairedView(_OfMethod):
    """The reference minus another method, on one dataset or on the mean of all."""

    f1: DifferenceView
    tokens: DifferenceView


class RunDifferences(PageModel):
    """The paired differences of one method to all others."""

    reference_title: str
    differences: tuple[PairedView, ...]


def view_run(summary: Summary) -> RunOverview:
    """Return the summary of a run as the overview page shows it."""
    run = summary.run
    made = {
        "made": run.made,
        "model": run.model,
        "verifier": run.verifier,
        "retriever": run.searched_with,
        "calibration": ", ".join(each.name for each in run.calibrations) or "none",
        "judge": run.judge or "none",
        "seed": str(run.seed),
        **{f"budget: {name.replace('_', ' ')}": f"{value:,}" for name, value in asdict(run.budget).items()},
    }
    shown = {name: getattr(summary, name) for name in ("first_line", "complete", "cells", "failures")}
    return RunOverview.model_validate({**shown, "methods": [*run.methods], "made": made})


def view_differences(run: RunRecord, episodes: Mapping[EpisodeKey, EpisodeSummary]) -> RunDifferences:
    """Compare BeliefRAG, or a run's first method if that is missing, with each other method."""
    methods = [name for name in METHODS if name in run.methods]
    reference = "beliefrag" if "beliefrag" in methods else next(iter(methods), "")
    scored: dict[tuple[str, str], list[EpisodeSummary]] = defaultdict(list)
    for episode in episodes.values():
        if episode.finished and episode.metrics.get("f1") is not None:
            scored[episode.method, episode.dataset].append(episode)
    values = {key: {name: measure_values(own, name) for name in ("f1", "tokens")} for key, own in scored.items()}
    datasets = [name for name in run.datasets if any(dataset == name for _, dataset in values)]
    groups = {name: [name] for name in datasets} | ({MEAN: datasets} if len(datasets) > 1 else {})
    differences = (
        PairedView.model_validate({"dataset": name, "method": method, **paired.measures})
        for name, group in groups.items()
        for method in methods
        if method != reference and (paired := _compare(values, group, reference, method)) is not None
    )
    return RunDifferences(reference_title=METHODS.title(reference) if reference else "", differences=tuple(differences))


def _compare(values: _Values, datasets: Sequence[str], first: str, second: str) -> PairedComparison | None:
    """Compare two methods on the questions that both finished; None if they share none of a dataset."""
    sides: tuple[dict[str, Mapping[str, Mapping[str, float]]], ...] = ({}, {})
    for name in datasets:
        pair = [values.get((method, name), {"f1": {}}) for method in (first, second)]
        shared = pair[0]["f1"].keys() & pair[1]["f1"].keys()
        if not shared:
            return None
        for side, own in zip(sides, pair, strict=True):
            side[name] = {measure: {key: column[key] for key in shared} for measure, column in own.items()}
    one, other = sides
    return compare_over_datasets(one, other) if len(datasets) > 1 else compare(one[datasets[0]], other[datasets[0]])
