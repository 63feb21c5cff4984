"""What can be said of a run beyond its means: paired differences, ties, and how far its confidences can be trusted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from pydantic import BaseModel, ConfigDict

from beliefrag.calibration.quality import expected_calibration_error, reliability_curve
from beliefrag.calibration.risk import RiskSample, risk_coverage
from beliefrag.methods import METHODS
from beliefrag.outcome import Abstained
from beliefrag.record import EpisodeKey, EpisodeSummary
from beliefrag.runs.record import RunRecord
from beliefrag.runs.statistics import Difference, PairedComparison, compare, compare_over_datasets
from beliefrag.runs.summary import MEAN, measure_values
from beliefrag.web.view.overview import EstimateView, view_estimate

__all__ = ["RunAnalysis", "analyse_run"]

_OURS = "beliefrag"
_MOST_POINTS = 200
"""Points of a drawn curve: more than a screen can show apart."""

Measures = Mapping[str, Mapping[str, float]]
"""Per measure one value per question."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class DifferenceView(_Frozen):
    """How far one method's mean lies from another's, on the questions that both finished."""

    estimate: EstimateView
    clear: bool
    """Whether the interval lies on one side of zero, on enough questions to say so."""


class PairedView(_Frozen):
    """The reference minus another method, on one dataset or on the mean of all."""

    dataset: str
    method: str
    method_title: str
    f1: DifferenceView
    tokens: DifferenceView


class BinView(_Frozen):
    """Answers of similar confidence: what was said, and how many were right."""

    predicted: float
    observed: float
    answers: int


class RiskPoint(_Frozen):
    """The share of wrong answers if only the surest questions were answered."""

    coverage: float
    risk: float
    low: float
    high: float


class ConfidenceView(_Frozen):
    """How far one method's confidences can be trusted, on one dataset or on all questions together."""

    dataset: str
    method: str
    method_title: str
    answers: int
    declined: int
    calibration_error: float
    bins: tuple[BinView, ...]
    curve: tuple[RiskPoint, ...]


class RunAnalysis(_Frozen):
    """Paired differences, ties and confidences of a run."""

    reference: str
    reference_title: str
    differences: tuple[PairedView, ...]
    ties: Mapping[str, tuple[str, ...]]
    """By dataset: the method with the best F1, and those that are not clearly worse on the same questions."""
    right_by: str
    """What says whether an answer is right: the judge, or an F1 of at least one half."""
    confidences: tuple[ConfidenceView, ...]


def analyse_run(
    run: RunRecord, episodes: Mapping[EpisodeKey, EpisodeSummary], answerability: Mapping[EpisodeKey, float]
) -> RunAnalysis:
    """Analyse a run.

    Args:
        run: Its record.
        episodes: The numbers of its episodes.
        answerability: The confidence of each episode that has one.
    """
    finished = [episode for episode in episodes.values() if episode.finished]
    methods = [name for name in METHODS if name in run.methods]
    reference = _OURS if _OURS in methods else methods[0] if methods else ""
    values = _measures(finished, run, methods)
    right_by = "judge" if finished and all(_is_judged(each) for each in finished) else "f1"
    return RunAnalysis(
        reference=reference,
        reference_title=METHODS.title(reference) if reference else "",
        differences=tuple(_differences(values, reference, [name for name in methods if name != reference])),
        ties={dataset: tied for dataset in (*run.datasets, MEAN) if (tied := _find_ties(values, dataset, methods))},
        right_by=right_by,
        confidences=tuple(_confidences(finished, answerability, run, methods, right_by)),
    )


def _measures(
    finished: Iterable[EpisodeSummary], run: RunRecord, methods: Sequence[str]
) -> dict[tuple[str, str], Measures]:
    """Return F1 and tokens per question, by dataset and method, where the dataset has an F1."""
    grouped: dict[tuple[str, str], list[EpisodeSummary]] = defaultdict(list)
    for episode in finished:
        if episode.metrics.get("f1") is not None:
            grouped[episode.key.dataset, episode.key.method].append(episode)
    return {
        cell: {name: measure_values(grouped[cell], name) for name in ("f1", "tokens")}
        for cell in product(run.datasets, methods)
        if cell in grouped
    }


def _differences(
    values: Mapping[tuple[str, str], Measures], reference: str, others: Sequence[str]
) -> Iterator[PairedView]:
    datasets = list(dict.fromkeys(dataset for dataset, _ in values))
    for dataset, method in product((*datasets, MEAN), others):
        if (paired := _compare(values, dataset, reference, method)) is not None:
            f1, tokens = (_view_difference(paired.measures[name]) for name in ("f1", "tokens"))
            yield PairedView(dataset=dataset, method=method, method_title=METHODS.title(method), f1=f1, tokens=tokens)


def _compare(
    values: Mapping[tuple[str, str], Measures], dataset: str, first: str, second: str
) -> PairedComparison | None:
    """Compare two methods on the questions that both finished; None where there are none."""
    datasets = list(dict.fromkeys(name for name, _ in values)) if dataset == MEAN else [dataset]
    if not datasets or (dataset == MEAN and len(datasets) < 2):
        return None
    one: dict[str, Measures] = {}
    other: dict[str, Measures] = {}
    for name in datasets:
        left, right = (values.get((name, method), {}).get("f1", {}) for method in (first, second))
        shared = left.keys() & right.keys()
        if not shared:
            return None
        one[name], other[name] = (_restrict(values[name, method], shared) for method in (first, second))
    return compare_over_datasets(one, other) if dataset == MEAN else compare(one[dataset], other[dataset])


def _restrict(measures: Measures, questions: Collection[str]) -> Measures:
    return {name: {key: column[key] for key in questions} for name, column in measures.items()}


def _find_ties(values: Mapping[tuple[str, str], Measures], dataset: str, methods: Sequence[str]) -> tuple[str, ...]:
    """Return the best method of a dataset and those that are not clearly worse, the best first."""
    datasets = list(dict.fromkeys(name for name, _ in values)) if dataset == MEAN else [dataset]
    means: dict[str, float] = {}
    for method in methods:
        columns = [values[name, method]["f1"].values() for name in datasets if (name, method) in values]
        if columns and len(columns) == len(datasets):
            means[method] = sum(sum(column) / len(column) for column in columns) / len(columns)
    if not means or (dataset == MEAN and len(datasets) < 2):
        return ()
    best = max(means, key=lambda method: means[method])
    others = (method for method in means if method != best)
    return (best, *(method for method in others if not _is_clearly_better(_compare(values, dataset, best, method))))


def _is_clearly_better(paired: PairedComparison | None) -> bool:
    return paired is not None and paired.measures["f1"].is_clear and paired.measures["f1"].difference.value > 0


def _view_difference(difference: Difference) -> DifferenceView:
    estimate = view_estimate(difference.difference)
    return DifferenceView(estimate=estimate, clear=difference.is_clear)


def _is_judged(episode: EpisodeSummary) -> bool:
    return episode.metrics.get("judge") is not None


def _confidences(
    finished: Sequence[EpisodeSummary],
    answerability: Mapping[EpisodeKey, float],
    run: RunRecord,
    methods: Sequence[str],
    right_by: str,
) -> Iterator[ConfidenceView]:
    """Return a view for each dataset and, where there are several, for all questions together under the mean's name."""
    datasets = [*run.datasets, *([MEAN] if len(run.datasets) > 1 else [])]
    for dataset, method in product(datasets, methods):
        own = [e for e in finished if e.key.method == method and dataset in (MEAN, e.key.dataset)]
        given = [e for e in own if e.outcome != Abstained.name and e.key in answerability]
        scores = [(answerability[e.key], score) for e in given if (score := e.metrics.get(right_by)) is not None]
        if scores:
            declined = sum(e.outcome == Abstained.name and e.key in answerability for e in own)
            yield _view_confidence(dataset, method, scores, declined)


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
        method_title=METHODS.title(method),
        answers=len(p),
        declined=declined,
        calibration_error=round(float(expected_calibration_error(p, y, weights)), 4),
        bins=tuple(
            BinView(predicted=each.predicted, observed=each.observed, answers=each.states)
            for each in reliability_curve(p, y, weights)
        ),
        curve=tuple(RiskPoint(coverage=c, risk=r, low=low, high=high) for c, r, low, high in points),
    )
