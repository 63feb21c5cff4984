"""What the pages of a run show beside its episodes: means with intervals, paired differences, ties and confidences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from pydantic import BaseModel, ConfigDict

from beliefrag.calibration.quality import expected_calibration_error, reliability_curve
from beliefrag.calibration.risk import RiskSample, risk_coverage
from beliefrag.methods import METHODS
from beliefrag.record import EpisodeKey, EpisodeSummary, Outcome
from beliefrag.runs.record import RunRecord
from beliefrag.runs.statistics import Difference, Estimate, PairedComparison, compare, compare_over_datasets
from beliefrag.runs.summary import MEAN, Cell, Summary, measure_values

_MEASURES = (
    *("f1", "exact_match", "cover", "judge", "evidence_recall", "answer_row_recall"),
    *("rounds", "calls", "tokens", "seconds"),
)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class MethodName(_Frozen):
    """A method's name and title."""

    name: str
    title: str


class EstimateView(_Frozen):
    """A mean with its interval."""

    mean: float
    low: float | None
    high: float | None
    n: int | None
    level: float
    smallest: int | None
    few: bool


class CellView(_Frozen):
    """One method on one dataset, or on the mean of all."""

    dataset: str
    is_mean: bool
    method: str
    method_title: str
    episodes: int
    asked: int
    failed: int
    outcomes: Mapping[str, int]
    measures: Mapping[str, EstimateView | None]


class FailureView(_Frozen):
    """How many episodes failed for one cause."""

    cause: str
    dataset: str
    method: str
    episodes: int


class RunOverview(_Frozen):
    """The numbers of a run."""

    first_line: str
    complete: bool
    datasets: tuple[str, ...]
    methods: tuple[MethodName, ...]
    cells: tuple[CellView, ...]
    failures: tuple[FailureView, ...]
    made: Mapping[str, str]


def view_run(summary: Summary) -> RunOverview:
    """Return the summary of a run as the overview page shows it."""
    run = summary.run
    return RunOverview(
        first_line=summary.first_line,
        complete=summary.complete,
        datasets=tuple(run.datasets),
        methods=tuple(MethodName(name=name, title=METHODS.title(name)) for name in run.methods),
        cells=tuple(_view_cell(cell) for cell in summary.cells),
        failures=tuple(
            FailureView(cause=each.cause, dataset=each.dataset, method=each.method, episodes=len(each.question_ids))
            for each in summary.failures
        ),
        made={
            "made": run.made,
            "model": run.model,
            "verifier": run.verifier,
            "retriever": run.searched_with,
            "calibration": ", ".join(each.name for each in run.calibrations) or "none",
            "judge": run.judge or "none",
            "seed": str(run.seed),
            **{f"budget: {name.replace('_', ' ')}": f"{value:,}" for name, value in run.budget.items()},
        },
    )


def _view_cell(cell: Cell) -> CellView:
    found = {name: cell.measures.get(name) for name in _MEASURES} | {"tokens_beside_f1": cell.tokens_beside_f1}
    return CellView(
        dataset=cell.dataset,
        is_mean=cell.dataset == MEAN,
        method=cell.method,
        method_title=METHODS.title(cell.method),
        episodes=cell.episodes,
        asked=cell.asked,
        failed=cell.failed,
        outcomes=dict(cell.outcomes),
        measures={name: None if estimate is None else view_estimate(estimate) for name, estimate in found.items()},
    )


def view_estimate(estimate: Estimate) -> EstimateView:
    """Return a mean as pages show it."""
    return EstimateView(
        mean=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=estimate.questions,
        level=estimate.level,
        smallest=estimate.smallest,
        few=estimate.has_few_questions,
    )


_OURS = "beliefrag"
_MOST_POINTS = 200
"""Points of a drawn curve: more than a screen can show apart."""

Measures = Mapping[str, Mapping[str, float]]
"""Per measure one value per question."""


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
    """Compare two methods on the questions that both finished; None if they share none."""
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
        given = [e for e in own if e.outcome is not Outcome.ABSTAINED and e.key in answerability]
        scores = [(answerability[e.key], score) for e in given if (score := e.metrics.get(right_by)) is not None]
        if scores:
            declined = sum(e.outcome is Outcome.ABSTAINED and e.key in answerability for e in own)
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
