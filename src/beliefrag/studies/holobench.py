"""Questions about sets of rows: how many of the needed rows each method finds, and how many it reads for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from beliefrag.bench.metrics import recall_per_row_read
from beliefrag.methods import METHODS
from beliefrag.report.figure import draw_bars
from beliefrag.report.published import published_numbers
from beliefrag.report.table import Column, Table, format_number
from beliefrag.runs.statistics import Estimate, Floats, estimate_from_resamples, mean_estimate, resample_means
from beliefrag.studies.study import (
    METHOD,
    MIN_QUESTIONS,
    ROW_SETS,
    STUDIES,
    Compared,
    PaperValue,
    Recording,
    RequiredRun,
    StudyContext,
    StudyResult,
    compare_with_paper,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COMPARED = ("static", "iterative", METHOD)
_PAPER_ROWS = 50
_MEASURES = {
    "row_recall_read": Column("row recall", "of rows read"),
    "evidence_recall": Column("row recall at the end", "of rows retained"),
    "rows_read": Column("rows read", "per question", 2),
    "rows_needed": Column("rows needed", "per question", 2),
    "answer_row_recall": Column("answer rows", "share in the answer"),
    "tokens": Column("tokens", "per question", 0),
}


@STUDIES.register(
    "holobench",
    title="Sets of rows",
    summary="How many of the rows that an answer ranges over does each method find, and how many does it read?",
)
@dataclass(frozen=True, slots=True)
class HolobenchStudy:
    """Compares methods in the rows that they find and read."""

    protocol: ClassVar[tuple[str, ...]] = (
        "Each row of a database is a passage; a question needs all rows that its answer ranges over.",
        "Row recall is the share of needed rows among those that a method's searches returned, each row once.",
        "Recall per row read is the mean row recall divided by the mean number of rows read, times 1,000.",
        "The ceiling is the recall of reading as many rows as allowed, and only needed ones.",
        "Questions are resampled 2,000 times; a ratio's two means are resampled together. Differences are paired.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name one run on datasets of rows."""
        return (RequiredRun("rows", _COMPARED, kind=ROW_SETS),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Compute recall, rows read and the highest possible recall."""
        recording = recordings["rows"]
        found = Compared.on_shared_questions(
            _COMPARED, ["all"], lambda method, _, measure: recording.pooled(method, measure), _MEASURES
        )
        datasets = ", ".join(recording.datasets) or "no dataset"
        sample = f"{sum(found.questions.values()):,} questions of {datasets}, each by {len(_COMPARED)} methods."
        if not found.scopes:
            why = f"Every method must have finished at least {MIN_QUESTIONS} questions about sets of rows."
            return StudyResult.insufficient(why, sample=sample)
        top_k, rounds = recording.run.budget.top_k, recording.run.budget.rounds
        allowed, needed = rounds * top_k, found.values[METHOD]["all"]["rows_needed"]
        ceilings = {rows: highest_recall(needed, rows) for rows in dict.fromkeys((top_k, allowed, _PAPER_ROWS))}
        ratios = {method: recall_per_row(found, method) for method in _COMPARED}
        gains = {method: recall_per_row(found, METHOD, method) for method in _COMPARED[:-1]}
        ceiling_rows = [{"rows that may be read": rows, "highest row recall": each} for rows, each in ceilings.items()]
        note = "The mean over questions of min(1, rows that may be read / rows needed)."
        per_row, gap = "recall per row read (times 1,000)", "recall per row read difference (times 1,000)"
        words = ", ".join(f"{METHODS.title(method)} {format_number(r, '.1f')}" for method, r in ratios.items())
        return StudyResult(
            sample=sample,
            findings=(*found.findings("row_recall_read", "rows_read"), f"Recall per row read, times 1,000: {words}."),
            tables=(
                found.means_table("methods", "Rows found and read", extra=lambda _, method: {per_row: ratios[method]}),
                found.differences_table("differences", extra=lambda _, method: {gap: gains[method]}),
                Table.of_records("ceilings", "The highest possible recall", ceiling_rows, note),
            ),
            notes=(*found.notes(), *recording.missing_notes(*_COMPARED)),
            paper_values=_paper_values(found, ratios, ceilings[_PAPER_ROWS]),
            paper_note=f"Theirs is HoloBench with gpt-oss-120b. Their searches must return more than {top_k} rows.",
            draw=partial(_draw_rows, found, ratios, ceilings[allowed]),
            figure_size=(10.0, 4.2),
            caption=f"Rows found and read. Dotted: the recall that {allowed} rows allow; lines: 95 % intervals.",
        )


def highest_recall(needed: Mapping[str, float], rows: int) -> Estimate:
    """Return the highest row recall that reading this many rows allows: the mean of min(1, rows / needed)."""
    return mean_estimate({key: min(1.0, rows / value) for key, value in needed.items()}).without_flat_interval()


def recall_per_row(found: Compared, method: str, minus: str = "") -> Estimate | None:
    """Return mean recall by mean rows read, times 1,000, minus that of another method; None if nothing was read."""
    ratios = _resample_ratios(found, method) - (_resample_ratios(found, minus) if minus else 0.0)
    count = sum(found.questions.values())
    return estimate_from_resamples(ratios[0], ratios[1:], questions=count) if np.isfinite(ratios[0]) else None


def _resample_ratios(found: Compared, method: str) -> Floats:
    """Return the ratio of means and its resamples, NaN where nothing was read. All ratios draw the same questions."""
    recall, read = (found.values[method]["all"][measure] for measure in ("row_recall_read", "rows_read"))
    table = np.array([[recall[key], read[key]] for key in sorted(recall)], dtype=np.float64)
    means = np.concatenate([table.mean(axis=0)[None, :], resample_means(table)])
    return np.array([recall_per_row_read(*pair) if pair[1] > 0 else np.nan for pair in means])


def _paper_values(found: Compared, ratios: Mapping[str, Estimate | None], ceiling: Estimate) -> tuple[PaperValue, ...]:
    """Return the values beside the paper's; it draws recall per row read and does not print it: theirs is computed."""
    theirs = published_numbers()
    values = []
    ours: dict[str, Estimate | None] = {}
    for method in (METHOD, "iterative"):
        value = recall_per_row_read(theirs[f"row_recall_{method}"].value, theirs[f"rows_read_{method}"].value)
        what = f"Row recall per row read times 1,000, {METHODS.title(method)} (theirs: from their recall and rows read)"
        values.append(PaperValue(what, value, ratios[method], digits=1))
        ours[f"row_recall_{method}"] = found.mean(method, "row_recall_read")
        ours[f"rows_read_{method}"] = found.mean(method, "rows_read")
    return (*values, *compare_with_paper({**ours, "row_recall_ceiling": ceiling}))


def _draw_rows(found: Compared, ratios: Mapping[str, Estimate | None], ceiling: Estimate, figure: Figure) -> None:
    names = [METHODS.title(method) for method in _COMPARED]
    panels = figure.subplots(1, 3)
    for axes, measure, title in zip(
        panels, ("row_recall_read", "rows_read"), ("Rows found", "Rows read"), strict=False
    ):
        means = [found.mean(method, measure) for method in _COMPARED]
        line = ceiling.value if measure == "row_recall_read" else None
        draw_bars(axes, title, _MEASURES[measure].heading, names, {"": means}, form=".3g", line=line)
    per_row = {"": list(ratios.values())}
    draw_bars(panels[2], "Found for each row read", "recall per row read (times 1,000)", names, per_row, form=".1f")
