"""A run in one view: methods by datasets with their intervals, what is missing, and what it was made with."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from beliefrag.methods import METHODS
from beliefrag.runs.statistics import Estimate
from beliefrag.runs.summary import MEAN, Cell, Summary

__all__ = ["EstimateView", "RunOverview", "view_estimate", "view_run"]

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
