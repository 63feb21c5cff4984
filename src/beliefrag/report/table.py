"""The one table that everybody looks at first: each dataset and method on a line."""

from __future__ import annotations

from beliefrag.methods import METHODS
from beliefrag.runs.cells import Cell
from beliefrag.runs.statistics import Estimate
from beliefrag.runs.summary import Summary

__all__ = ["HEADINGS", "interval", "number", "outcomes", "questions", "rows"]

HEADINGS = (
    "dataset",
    "method",
    "n",
    "EM",
    "F1",
    "F1 95 %",
    "cover",
    "judge",
    "evidence recall",
    "answer rows",
    "rounds",
    "actions",
    "calls",
    "tokens in",
    "tokens out",
    "seconds",
    "answered/stopped/abstained/failed",
)

_OUTCOMES = ("answered", "stopped", "abstained", "failed")
_WHOLE = ("tokens", "tokens_in", "tokens_out")
_FEW_DIGITS = ("rounds", "actions", "calls", "seconds")


def rows(summary: Summary) -> list[tuple[str, ...]]:
    """The cells of the table, as text."""
    return [_row(cell) for cell in summary.cells]


def _row(cell: Cell) -> tuple[str, ...]:
    plain = {name: number(name, estimate) for name, estimate in cell.measures.items()}
    return (
        cell.dataset,
        METHODS.title(cell.method),
        questions(cell),
        plain["exact_match"],
        plain["f1"],
        interval("f1", cell.measures["f1"]),
        plain["cover"],
        plain["judge"],
        plain["evidence_recall"],
        plain["answer_row_recall"],
        plain["rounds"],
        plain["actions"],
        plain["calls"],
        plain["tokens_in"],
        plain["tokens_out"],
        plain["seconds"],
        outcomes(cell),
    )


def questions(cell: Cell) -> str:
    """How many questions the numbers rest on, and of how many where some are lacking."""
    return f"{cell.episodes:,}" if cell.episodes == cell.asked else f"{cell.episodes:,} of {cell.asked:,}"


def outcomes(cell: Cell) -> str:
    """How the episodes of a cell ended."""
    return "/".join(str(cell.outcomes.get(name, 0)) for name in _OUTCOMES)


def number(measure: str, estimate: Estimate | None) -> str:
    """A mean with as many digits as its measure deserves; a dash where there is none."""
    return "-" if estimate is None else _digits(measure, estimate.value)


def interval(measure: str, estimate: Estimate | None) -> str:
    """The interval; marked with ? where there are too few questions to trust it."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return "-"
    few = " ?" if estimate.has_few_questions else ""
    return f"{_digits(measure, estimate.low)} to {_digits(measure, estimate.high)}{few}"


def _digits(measure: str, value: float) -> str:
    if measure in _WHOLE:
        return f"{value:,.0f}"
    return f"{value:.2f}" if measure in _FEW_DIGITS else f"{value:.3f}"
