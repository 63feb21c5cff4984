"""What the pages of a run show beside its episodes: means with intervals, paired differences, ties and confidences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, computed_field

from beliefrag.calibration.artifact import Bin
from beliefrag.calibration.quality import expected_calibration_error, reliability_curve
from beliefrag.calibration.risk import RiskSample, risk_coverage
from beliefrag.methods import METHODS
from beliefrag.record import EpisodeKey, EpisodeSummary, Outcome
from beliefrag.runs.record import RunRecord
from beliefrag.runs.statistics import PairedComparison, compare, compare_over_datasets
from beliefrag.runs.summary import MEAN, Summary, measure_values

_OURS = "beliefrag"
_MOST_POINTS = 200
"""Points of a drawn curve: more than a screen can show apart."""

_Values = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
"""F1 and tokens of each question, by method, dataset and measure."""


class _View(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class _OfMethod(_View):
    dataset: str
    method: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def method_title(self) -> str:
        """The method's name in tables."""
        return METHODS.title(self.method)


class EstimateView(_View):
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


class RunOverview(_View):
    """The numbers of a run."""

    first_line: str
    complete: bool
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    cells: tuple[CellView, ...]
    failures: tuple[FailureView, ...]
    made: Mapping[str, str]


class DifferenceView(_View):
    """How far one method's mean lies from another's, on the questions that both finished."""

    difference: EstimateView
    is_clear: bool


class PairedView(_OfMethod):
    """The reference minus another method, on one dataset or on the mean of all."""

    f1: DifferenceView
    tokens: DifferenceView


class ConfidenceView(_OfMethod):
    """How far one method's confidences can be trusted, on one dataset or on all questions together."""

    answers: int
    declined: int
    calibration_error: float
    bins: tuple[Bin, ...]
    curve: tuple[tuple[float, float, float, float], ...]
    """If only the surest questions were answered: their share, the share of wrong answers, and its interval."""


class RunAnalysis(_View):
    """Paired differences, ties and confidences of a run."""

    reference: str
    reference_title: str
    differences: tuple[PairedView, ...]
    ties: Mapping[str, tuple[str, ...]]
    """By dataset: the method with the best F1, and those that are not clearly worse on the same questions."""
    right_by: str
    """What decides whether an answer is right: the judge, or an F1 of at least one half."""
    confidences: tuple[ConfidenceView, ...]


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
        **{f"budget: {name.replace('_', ' ')}": f"{value:,}" for name, value in run.budget.items()},
    }
    shown = {name: getattr(summary, name) for name in ("first_line", "complete", "cells", "failures")}
    return RunOverview.model_validate({**shown, "datasets": [*run.datasets], "methods": [*run.methods], "made": made})


def analyse_run(
    run: RunRecord, episodes: Mapping[EpisodeKey, EpisodeSummary], answerability: Mapping[EpisodeKey, float]
) -> RunAnalysis:
    """Analyse a run, given the confidence of each episode that has one."""
    finished = [episode for episode in episodes.values() if episode.finished]
    methods = [name for name in METHODS if name in run.methods]
    reference = _OURS if _OURS in methods else methods[0] if methods else ""
    values = _measure(finished)
    scored = [name for name in run.datasets if any(name in by_dataset for by_dataset in values.values())]
    groups = {**{name: [name] for name in scored}, **({MEAN: scored} if len(scored) > 1 else {})}
    right_by = "judge" if finished and all(each.metrics.get("judge") is not None for each in finished) else "f1"
    differences = (
        PairedView.model_validate({"dataset": name, "method": method, **paired.measures})
        for name, datasets in groups.items()
        for method in methods
        if method != reference and (paired := _compare(values, datasets, reference, method)) is not None
    )
    ties = {name: _find_ties(values, datasets, methods) for name, datasets in groups.items()}
    places = [*run.datasets, *([MEAN] if len(run.datasets) > 1 else [])]
    return RunAnalysis(
        reference=reference,
        reference_title=METHODS.title(reference) if reference else "",
        differences=tuple(differences),
        ties={name: tied for name, tied in ties.items() if tied},
        right_by=right_by,
        confidences=tuple(_confidences(finished, answerability, places, methods, right_by)),
    )


def _measure(finished: Sequence[EpisodeSummary]) -> _Values:
    grouped: dict[str, dict[str, list[EpisodeSummary]]] = defaultdict(lambda: defaultdict(list))
    for episode in finished:
        if episode.metrics.get("f1") is not None:
            grouped[episode.method][episode.dataset].append(episode)
    return {
        method: {
            dataset: {name: measure_values(own, name) for name in ("f1", "tokens")}
            for dataset, own in by_dataset.items()
        }
        for method, by_dataset in grouped.items()
    }


def _compare(values: _Values, datasets: Sequence[str], first: str, second: str) -> PairedComparison | None:
    """Compare two methods on the questions that both finished; None if they share none of a dataset."""
    sides: tuple[dict[str, Mapping[str, Mapping[str, float]]], ...] = ({}, {})
    for name in datasets:
        pair = [values.get(method, {}).get(name, {}) for method in (first, second)]
        shared = pair[0].get("f1", {}).keys() & pair[1].get("f1", {}).keys()
        if not shared:
            return None
        for side, own in zip(sides, pair, strict=True):
            side[name] = {measure: {key: column[key] for key in shared} for measure, column in own.items()}
    one, other = sides
    return compare_over_datasets(one, other) if len(datasets) > 1 else compare(one[datasets[0]], other[datasets[0]])


def _find_ties(values: _Values, datasets: Sequence[str], methods: Sequence[str]) -> tuple[str, ...]:
    """Return the method with the best F1 and those that are not clearly worse, the best first."""
    means: dict[str, float] = {}
    for method in methods:
        columns = [values[method][name]["f1"].values() for name in datasets if name in values.get(method, {})]
        if len(columns) == len(datasets):
            means[method] = sum(sum(column) / len(column) for column in columns) / len(columns)
    if not means:
        return ()
    best = max(means, key=lambda method: means[method])

    def ties(method: str) -> bool:
        paired = _compare(values, datasets, best, method)
        return paired is None or not paired.measures["f1"].is_clear or paired.measures["f1"].difference.value <= 0

    return (best, *(method for method in means if method != best and ties(method)))


def _confidences(
    finished: Sequence[EpisodeSummary],
    answerability: Mapping[EpisodeKey, float],
    datasets: Sequence[str],
    methods: Sequence[str],
    right_by: str,
) -> Iterator[ConfidenceView]:
    for dataset in datasets:
        for method in methods:
            own = [
                e for e in finished if e.method == method and dataset in (MEAN, e.dataset) and e.key in answerability
            ]
            given = [e for e in own if e.outcome is not Outcome.ABSTAINED]
            scores = [(answerability[e.key], score) for e in given if (score := e.metrics.get(right_by)) is not None]
            if scores:
                yield _view_confidence(dataset, method, scores, len(own) - len(given))


def _view_confidence(dataset: str, method: str, scores: Sequence[tuple[float, float]], declined: int) -> ConfidenceView:
    p, correct = np.array([each for each, _ in scores]), np.array([score >= 0.5 for _, score in scores])
    y, weights = correct.astype(np.float64), np.ones(len(p))
    curve = risk_coverage(RiskSample(p, correct, declined))
    last = len(curve.risk) - 1
    drawn = np.unique(np.linspace(0, last, min(_MOST_POINTS, last + 1)).astype(int))
    points = np.stack([curve.coverage, curve.risk, curve.low, curve.high])[:, drawn].T.round(5).tolist()
    return ConfidenceView(
        dataset=dataset,
        method=method,
        answers=len(p),
        declined=declined,
        calibration_error=round(float(expected_calibration_error(p, y, weights)), 4),
        bins=reliability_curve(p, y, weights),
        curve=tuple(map(tuple, points)),
    )
