"""Which datasets a mean is over, where that is not all of them: not every measure has a meaning for every dataset."""

from __future__ import annotations

from collections.abc import Iterator

from beliefrag.runs.cells import MEAN, MEASURES
from beliefrag.runs.summary import Summary

__all__ = ["mean_notes", "rests_on_some"]


def rests_on_some(summary: Summary, measure: str) -> tuple[str, ...]:
    """The datasets that the mean of a measure is over; empty where there is none, or it is over all of them."""
    means = [cell.rests_on[measure] for cell in summary.cells if cell.dataset == MEAN and measure in cell.rests_on]
    over = tuple(dataset for dataset in summary.run.datasets if any(dataset in names for names in means))
    return over if len(over) < len(summary.run.datasets) else ()


def mean_notes(summary: Summary) -> Iterator[str]:
    """A line for each set of datasets that some means are over: one table with all columns cannot say it itself."""
    names: dict[tuple[str, ...], list[str]] = {}
    for measure, heading in MEASURES.items():
        if over := rests_on_some(summary, measure):
            names.setdefault(over, []).append(heading)
    for over, headings in names.items():
        yield f"the mean of {', '.join(headings)} is over {', '.join(over)} alone"
