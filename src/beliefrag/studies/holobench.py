"""Questions about sets of rows: how many of the needed rows each method finds, and how many it reads for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beliefrag.bench.metrics import recall_per_row_read
from beliefrag.methods import METHODS
from beliefrag.report.figure import HATCHES, MARKERS, draw_interval, label_points
from beliefrag.report.published import published_numbers
from beliefrag.report.table import CellValue, Column, Table, format_number
from beliefrag.runs.statistics import (
    Estimate,
    Floats,
    compare,
    estimate_from_resamples,
    mean_estimate,
    resample_means,
)
from beliefrag.studies.study import (
    ROW_SETS,
    STUDIES,
    PaperValue,
    Recording,
    RequiredRun,
    StudyContext,
    StudyResult,
    compare_with_paper,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["HolobenchStudy", "RowCounts", "highest_recall", "recall_per_row"]

_RUN = "rows"
_METHOD = "beliefrag"
_COMPARED = ("static", "iterative", _METHOD)
_PAPER_ROWS = 50
"""The number of rows for which the paper gives the highest possible recall."""
_MEASURES = ("row_recall_read", "evidence_recall", "rows_read", "rows_needed", "answer_row_recall", "tokens")
"""Recall of rows ever read and of rows retained at the end, rows read and needed, rows in the answer, and the cost."""


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
        "The ceiling is the recall of somebody who reads as many rows as allowed and only needed ones.",
        "Questions are resampled 2,000 times; a ratio's two means are resampled together. Differences are paired.",
        "Answers are not judged; the share of the answer's rows that the text names is given beside.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name one run on datasets of rows."""
        return (RequiredRun(_RUN, _COMPARED, kind=ROW_SETS),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Work out recall, rows read and the highest possible recall."""
        recording = recordings[_RUN]
        found, left_out = _count_rows(recording)
        needed = found[_METHOD].values["rows_needed"]
        datasets = ", ".join(recording.datasets) or "no dataset"
        sample = f"{len(needed):,} questions of {datasets}, each by {len(_COMPARED)} methods."
        if len(needed) < 2:
            return StudyResult.insufficient(
                "Every method must have finished at least two questions about sets of rows, in a run of this version.",
                sample=sample,
            )
        budget = recording.run.budget
        allowed = budget["rounds"] * budget["top_k"]
        ceilings = {
            rows: highest_recall(needed, rows) for rows in dict.fromkeys((budget["top_k"], allowed, _PAPER_ROWS))
        }
        notes = [f"{left_out} questions are left out: not every method finished them."] if left_out else []
        notes += [sentence] if (sentence := recording.describe_missing(*_COMPARED)) else []
        return StudyResult(
            sample=sample,
            findings=tuple(_describe_findings(found, ceilings[allowed], allowed)),
            numbers={
                "methods": {method: _collect_numbers(rows) for method, rows in found.items()},
                "ceilings": {str(rows): estimate for rows, estimate in ceilings.items()},
                "rows_needed": found[_METHOD].mean("rows_needed"),
            },
            tables=(_methods_table(found), _differences_table(found), _ceilings_table(ceilings)),
            notes=tuple(notes),
            paper_values=_ratio_values(found)
            + compare_with_paper(
                {
                    "row_recall_beliefrag": found[_METHOD].mean("row_recall_read"),
                    "rows_read_beliefrag": found[_METHOD].mean("rows_read"),
                    "row_recall_iterative": found["iterative"].mean("row_recall_read"),
                    "rows_read_iterative": found["iterative"].mean("rows_read"),
                    "row_recall_ceiling": ceilings[_PAPER_ROWS],
                }
            ),
            paper_note="Theirs is HoloBench with gpt-oss-120b; ours are the datasets that are named below. The "
            "ceiling tells how many rows the questions here need beside theirs. Here a search returns "
            f"{budget['top_k']} rows in at most {budget['rounds']} searches; theirs must return more.",
            draw=partial(_draw_rows, found, ceilings[allowed], allowed),
            figure_size=(10.0, 4.2),
            caption="Row recall by rows read, and row recall per row read. The dotted line is the recall that nobody "
            f"can exceed with {allowed} rows; bars are 95 % intervals.",
        )


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The rows that one method found and read: one value of each measure for each question."""

    values: Mapping[str, Mapping[str, float]]

    def mean(self, measure: str) -> Estimate:
        """Return the mean with its interval."""
        return mean_estimate(self.values[measure]).without_flat_interval()

    @property
    def efficiency(self) -> Estimate | None:
        """Row recall per row read, times 1,000; None where nothing was read."""
        return recall_per_row(self.values["row_recall_read"], self.values["rows_read"])

    def efficiency_gain(self, other: RowCounts) -> Estimate | None:
        """Return efficiency minus that of another method, on the same questions; None where either read nothing."""
        (own, drawn), (theirs, drawn_theirs) = (
            _resample_ratios(each.values["row_recall_read"], each.values["rows_read"]) for each in (self, other)
        )
        return _estimate_ratio(own - theirs, drawn - drawn_theirs, len(self.values["rows_read"]))


def highest_recall(needed: Mapping[str, float], rows: int) -> Estimate:
    """Return the largest row recall that reading this many rows allows: the mean of min(1, rows / needed)."""
    return mean_estimate({key: min(1.0, rows / value) for key, value in needed.items()}).without_flat_interval()


def recall_per_row(recall: Mapping[str, float], read: Mapping[str, float]) -> Estimate | None:
    """Return mean recall divided by mean rows read, times 1,000, with its interval: both are resampled together."""
    value, drawn = _resample_ratios(recall, read)
    return _estimate_ratio(value, drawn, len(recall))


def _count_rows(recording: Recording) -> tuple[dict[str, RowCounts], int]:
    """Return the numbers of each method on the questions that all finished, and how many questions are left out."""
    found = {
        method: {
            measure: {
                f"{dataset}/{key}": value
                for dataset in recording.datasets
                for key, value in recording.values(method, dataset, measure).items()
            }
            for measure in _MEASURES
        }
        for method in _COMPARED
    }
    ids = [set(by_id) for own in found.values() for by_id in own.values()]
    common = sorted(set.intersection(*ids))
    left_out = len(set.union(*ids)) - len(common)
    return {
        method: RowCounts({measure: {key: by_id[key] for key in common} for measure, by_id in own.items()})
        for method, own in found.items()
    }, left_out


def _resample_ratios(recall: Mapping[str, float], read: Mapping[str, float]) -> tuple[float, Floats]:
    """Return the ratio of means and its resamples, NaN where nothing was read. All ratios draw the same questions."""
    ids = sorted(recall)
    table = np.array([[recall[key], read[key]] for key in ids], dtype=np.float64)
    means = np.concatenate([table.mean(axis=0)[None, :], resample_means(table)])
    ratios = np.array([recall_per_row_read(*pair) if pair[1] > 0 else np.nan for pair in means])
    return float(ratios[0]), ratios[1:]


def _estimate_ratio(value: float, drawn: Floats, questions: int) -> Estimate | None:
    if not np.isfinite(value):
        return None
    if questions < 2:
        return Estimate(value, questions=questions)
    return estimate_from_resamples(value, drawn, questions=questions)


def _ratio_values(found: Mapping[str, RowCounts]) -> tuple[PaperValue, ...]:
    """Recall per row read, which the paper draws and does not print: theirs is worked out of the two that it prints."""
    theirs = published_numbers()
    return tuple(
        PaperValue(
            f"Row recall per row read times 1,000, {METHODS.title(method)} (theirs: from their recall and rows read)",
            recall_per_row_read(theirs[f"row_recall_{method}"].value, theirs[f"rows_read_{method}"].value),
            found[method].efficiency,
            digits=1,
        )
        for method in (_METHOD, "iterative")
    )


def _collect_numbers(rows: RowCounts) -> dict[str, Estimate | None]:
    return {**{name: rows.mean(name) for name in rows.values}, "recall_per_row_read": rows.efficiency}


def _describe_findings(found: Mapping[str, RowCounts], ceiling: Estimate, allowed: int) -> Iterator[str]:
    for method in reversed(_COMPARED):
        rows = found[method]
        recall, read = format_number(rows.mean("row_recall_read")), format_number(rows.mean("rows_read"), ".2f")
        each = rows.efficiency
        per_row = f": {format_number(each, '.1f')} thousandths of recall for each row" if each else ""
        yield f"{METHODS.title(method)} finds {recall} of the needed rows and reads {read}{per_row}."
    yield (
        f"With {allowed} rows nobody can find more than {ceiling.value:.3f} of them: compare the methods, not recall "
        "with 1."
    )


def _methods_table(found: Mapping[str, RowCounts]) -> Table:
    columns = (
        Column("method"),
        Column("row recall", "of rows read", bounded=True),
        Column("row recall at the end", "of rows retained", bounded=True),
        Column("rows read", "per question", digits=2, bounded=True),
        Column("recall per row read", "times 1,000", digits=2, bounded=True),
        Column("answer rows", "share in the answer", bounded=True),
        Column("tokens", "per question", digits=0, bounded=True),
    )
    rows: tuple[tuple[CellValue, ...], ...] = tuple(
        (
            METHODS.title(method),
            *(own.mean(name) for name in ("row_recall_read", "evidence_recall", "rows_read")),
            own.efficiency,
            *(own.mean(name) for name in ("answer_row_recall", "tokens")),
        )
        for method, own in found.items()
    )
    return Table("methods", "Rows found and rows read", columns, rows)


def _differences_table(found: Mapping[str, RowCounts]) -> Table:
    columns = (
        Column("against"),
        Column("row recall difference", bounded=True),
        Column("rows read difference", digits=2, bounded=True),
        Column("recall per row read difference", "times 1,000", digits=2, bounded=True),
    )
    names = ("row_recall_read", "rows_read")
    rows: list[tuple[CellValue, ...]] = []
    for method in _COMPARED:
        if method != _METHOD:
            sides = ({name: found[each].values[name] for name in names} for each in (_METHOD, method))
            pair = compare(*sides)
            differences = (pair.measures[name].difference.without_flat_interval() for name in names)
            rows.append((METHODS.title(method), *differences, found[_METHOD].efficiency_gain(found[method])))
    title = f"{METHODS.title(_METHOD)} minus each other method, on the same questions"
    return Table("differences", title, columns, tuple(rows), "Paired resamples.")


def _ceilings_table(ceilings: Mapping[int, Estimate]) -> Table:
    columns = (Column("rows that may be read"), Column("highest row recall", bounded=True))
    note = "The mean over questions of min(1, rows that may be read / rows needed)."
    return Table("ceilings", "What no method can exceed", columns, tuple(ceilings.items()), note)


def _draw_rows(found: Mapping[str, RowCounts], ceiling: Estimate, allowed: int, figure: Figure) -> None:
    recall_axes, ratio_axes = figure.subplots(1, 2, width_ratios=(1.4, 1))
    for axes in (recall_axes, ratio_axes):
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    points = [(rows.mean("rows_read"), rows.mean("row_recall_read")) for rows in found.values()]
    _draw_recall(recall_axes, points, ceiling, allowed)
    _draw_ratios(ratio_axes, found)
    figure.draw_without_rendering()
    names = zip(points, found, strict=True)
    label_points(recall_axes, [(read.value, recall.value, METHODS.title(name)) for (read, recall), name in names])


def _draw_recall(axes: Axes, points: Sequence[tuple[Estimate, Estimate]], ceiling: Estimate, allowed: int) -> None:
    for place, (read, recall) in enumerate(points):
        draw_interval(axes, recall, read.value, "0.65")
        draw_interval(axes, read, recall.value, "0.65", upright=False, linewidth=1.2)
        filled = "black" if place == len(points) - 1 else "white"
        axes.plot([read.value], [recall.value], MARKERS[place], ms=9, mfc=filled, mec="black", zorder=3)
    axes.axhline(ceiling.value, color="black", linestyle=":", linewidth=1.2)
    right = 1.15 * max(allowed, *(read.high or read.value for read, _ in points))
    words = f"most that {allowed} rows can give"
    axes.annotate(words, (right, ceiling.value), (-4, 4), textcoords="offset points", ha="right", fontsize=9)
    axes.set_xlim(0, right)
    axes.set_ylim(0, 1.15 * max(ceiling.value, *(recall.high or recall.value for _, recall in points)))
    axes.set_title("Rows found by rows read", fontsize=11)
    axes.set_xlabel("mean rows read per question (fewer is cheaper)")
    axes.set_ylabel("row recall: share of needed rows found")


def _draw_ratios(axes: Axes, found: Mapping[str, RowCounts]) -> None:
    for place, rows in enumerate(found.values()):
        if (ratio := rows.efficiency) is None:
            continue
        axes.bar(place, ratio.value, 0.6, color="0.88", edgecolor="black", hatch=HATCHES[place])
        draw_interval(axes, ratio, place, "black")
        offset: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "fontsize": 9}
        axes.annotate(f"{ratio.value:.1f}", (place, ratio.value), (-4, 3), **offset)
    axes.set_xticks(range(len(found)), [METHODS.title(method) for method in found])
    axes.set_xlim(-0.6, len(found) - 0.4)
    axes.set_title("Found for each row read", fontsize=11)
    axes.set_ylabel("row recall per row read (times 1,000)")
