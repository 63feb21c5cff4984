"""What the pages of a run show beside its episodes: means with intervals."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import computed_field

from beliefrag.methods import METHODS
from beliefrag.runs.summary import Summary
from beliefrag.web.view.schema import PageModel


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
    return RunOverview.model_validate({**shown, "methods": [*run.methods], "made": made})
