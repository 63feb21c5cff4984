"""Questions about sets of rows: which share of the needed rows each method finds, and how many it reads for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from beliefrag.bench.metrics import recall_per_row_read
from beliefrag.methods import METHODS
from beliefrag.report.published import published_numbers
from beliefrag.report.table import format_number
from beliefrag.runs.statistics import Estimate, compare
from beliefrag.studies.holobench.figure import draw_rows
from beliefrag.studies.holobench.rows import Rows, ceiling, rows_of
from beliefrag.studies.kinds import ROWS
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun
from beliefrag.studies.result import Beside, CellValue, Column, Result, Table, beside
from beliefrag.studies.study import Study, StudyOptions

__all__ = ["HOLOBENCH"]

RUN = "rows"
METHOD = "beliefrag"
COMPARED = ("static", "iterative", METHOD)
_PAPER_ROWS = 50
"""Rows at which the paper gives the ceiling."""


def _needs(asked: StudyOptions) -> tuple[RequiredRun, ...]:
    return (RequiredRun(RUN, COMPARED, kind=ROWS),)


def _work_out(recordings: Mapping[str, Recording], asked: StudyOptions) -> Result:
    recording = recordings[RUN]
    found, left_out = rows_of(recording, COMPARED)
    needed = found[METHOD].values["rows_needed"]
    datasets = ", ".join(recording.datasets) or "no dataset"
    n = f"{len(needed):,} questions of {datasets}, each by {len(COMPARED)} methods."
    if len(needed) < 2:
        return Result.too_little(
            "Every method must have finished at least two questions about sets of rows, in a run of this version.", n=n
        )
    budget = recording.run.budget
    most = budget["rounds"] * budget["top_k"]
    ceilings = {rows: ceiling(needed, rows) for rows in dict.fromkeys((budget["top_k"], most, _PAPER_ROWS))}
    notes = [f"{left_out} questions are left out: not every method finished them."] if left_out else []
    notes += [sentence] if (sentence := recording.lacking(*COMPARED)) else []
    return Result(
        n=n,
        findings=tuple(_findings(found, ceilings, most)),
        numbers={
            "methods": {method: _numbers(rows) for method, rows in found.items()},
            "ceilings": {str(rows): number for rows, number in ceilings.items()},
            "rows_needed": found[METHOD].mean("rows_needed").without_flat_interval(),
        },
        tables=(_methods_table(found), _differences(found), _ceilings(ceilings)),
        notes=tuple(notes),
        published=_per_row(found)
        + beside(
            {
                "row_recall_beliefrag": found[METHOD].mean("row_recall_read").without_flat_interval(),
                "rows_read_beliefrag": found[METHOD].mean("rows_read").without_flat_interval(),
                "row_recall_iterative": found["iterative"].mean("row_recall_read").without_flat_interval(),
                "rows_read_iterative": found["iterative"].mean("rows_read").without_flat_interval(),
                "row_recall_ceiling": ceilings[_PAPER_ROWS],
            }
        ),
        published_note="Theirs is HoloBench with gpt-oss-120b; ours are the datasets that are named below. The "
        "ceiling tells how many rows the questions here need beside theirs. Here a search returns "
        f"{budget['top_k']} rows in at most {budget['rounds']} searches; theirs must return more.",
        draw=partial(draw_rows, _points(found), ceilings[most], most),
        figure_size=(10.0, 4.2),
        caption="Row recall by rows read, and row recall per row read. The dotted line is the recall that nobody can "
        f"exceed with {most} rows; bars are 95 % intervals.",
    )


def _per_row(found: Mapping[str, Rows]) -> tuple[Beside, ...]:
    """The paper draws this number and does not print it: theirs comes of the two that it prints."""
    theirs = published_numbers()
    return tuple(
        Beside(
            f"Row recall per row read times 1,000, {METHODS.title(method)} (theirs: from their recall and rows read)",
            recall_per_row_read(theirs[f"row_recall_{method}"].value, theirs[f"rows_read_{method}"].value),
            found[method].efficiency,
            digits=1,
        )
        for method in (METHOD, "iterative")
    )


def _numbers(rows: Rows) -> dict[str, Estimate | None]:
    return {
        **{name: rows.mean(name).without_flat_interval() for name in rows.values},
        "recall_per_row_read": rows.efficiency,
    }


def _points(found: Mapping[str, Rows]) -> list[tuple[str, Estimate, Estimate, Estimate | None]]:
    return [
        (
            m,
            rows.mean("rows_read").without_flat_interval(),
            rows.mean("row_recall_read").without_flat_interval(),
            rows.efficiency,
        )
        for m, rows in found.items()
    ]


def _findings(found: Mapping[str, Rows], ceilings: Mapping[int, Estimate], most: int) -> Iterator[str]:
    for method in reversed(COMPARED):
        rows = found[method]
        recall, read = (rows.mean(name).without_flat_interval() for name in ("row_recall_read", "rows_read"))
        each = rows.efficiency
        per_row = f": {format_number(each, '.1f')} thousandths of recall for each row" if each else ""
        amount = format_number(read, ".2f")
        yield f"{METHODS.title(method)} finds {format_number(recall)} of the needed rows and reads {amount}{per_row}."
    top = ceilings[most].value
    yield f"With {most} rows nobody can find more than {top:.3f} of them: compare the methods, not recall with 1."


def _methods_table(found: Mapping[str, Rows]) -> Table:
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
            *(own.mean(name).without_flat_interval() for name in ("row_recall_read", "evidence_recall", "rows_read")),
            own.efficiency,
            *(own.mean(name).without_flat_interval() for name in ("answer_row_recall", "tokens")),
        )
        for method, own in found.items()
    )
    return Table("methods", "Rows found and rows read", columns, rows)


def _differences(found: Mapping[str, Rows]) -> Table:
    columns = (
        Column("against"),
        Column("row recall difference", bounded=True),
        Column("rows read difference", digits=2, bounded=True),
        Column("recall per row read difference", "times 1,000", digits=2, bounded=True),
    )
    names = ("row_recall_read", "rows_read")
    rows: list[tuple[CellValue, ...]] = []
    for method in COMPARED:
        if method != METHOD:
            sides = ({name: found[each].values[name] for name in names} for each in (METHOD, method))
            pair = compare(*sides)
            apart = (pair.measures[name].difference.without_flat_interval() for name in names)
            rows.append((METHODS.title(method), *apart, found[METHOD].more_efficient(found[method])))
    title = f"{METHODS.title(METHOD)} minus each other method, on the same questions"
    return Table("differences", title, columns, tuple(rows), "Paired resamples.")


def _ceilings(ceilings: Mapping[int, Estimate]) -> Table:
    columns = (Column("rows that may be read"), Column("highest row recall", bounded=True))
    note = "The mean over questions of min(1, rows that may be read / rows needed)."
    return Table("ceilings", "What no method can exceed", columns, tuple(ceilings.items()), note)


HOLOBENCH = Study(
    name="holobench",
    title="Sets of rows",
    question="How many of the rows that an answer ranges over does each method find, and how many does it read?",
    protocol=(
        "Each row of a database is a passage; a question needs all rows that its answer ranges over.",
        "Row recall is the share of needed rows among those that a method's searches returned, each row once.",
        "Recall per row read is the mean row recall divided by the mean number of rows read, times 1,000.",
        "The ceiling is the recall of somebody who reads as many rows as allowed and only needed ones.",
        "Questions are resampled 2,000 times; a ratio's two means are resampled together. Differences are paired.",
        "Answers are not judged; the share of the answer's rows that the text names is given beside.",
    ),
    needs=_needs,
    work_out=_work_out,
)
