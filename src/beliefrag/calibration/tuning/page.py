"""A tuning as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from beliefrag.calibration.tuning.tune import Tuning
from beliefrag.calibration.tuning.wording import (
    comparison_table,
    first_line,
    frontier_table,
    moves_table,
    refusals_table,
    settings_toml,
    verdict,
)
from beliefrag.report.table import Table

__all__ = ["page"]


def page(tuning: Tuning) -> str:
    """What was found, what was refused and why, and the settings to use."""
    return "\n".join(_lines(tuning))


def _lines(tuning: Tuning) -> Iterator[str]:
    made_of = [("model", tuning.recorded.run.model), ("calibration", tuning.artifact.name)]
    made_of += [("note", note) for note in tuning.notes]
    yield from (first_line(tuning), "", "# Operating points from recorded states", "")
    yield from (*_markdown_table(("what", "which"), made_of), "")
    yield from ("## What recorded states can tell", "", *_markdown_table(*moves_table(tuning)), "")
    yield from ("## The frontier, on xsel", "", *_markdown_table(*frontier_table(tuning)), "")
    yield from ("![answer quality against tokens](tune.png)", "")
    if tuning.refusals:
        yield from ("## Refused, for nobody recorded what they do", "", *_markdown_table(*refusals_table(tuning)), "")
    yield from ("## The choice", "", *verdict(tuning), "")
    if tuning.chosen:
        yield from (*_markdown_table(*comparison_table(tuning)), "")
        yield from ("```toml", settings_toml(tuning.chosen.thresholds, tuning.artifact.name).rstrip(), "```", "")


def _markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return Table.of_texts("", "", headings, rows).to_markdown().splitlines()
