"""The page of one study: its question, how it was answered, what came out, and the paper's values beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beliefrag.report.published import MARK
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.blocks import Block, Heading, Items, Picture, Rows, Words
from beliefrag.studies.recording import Recording
from beliefrag.studies.result import Cell, Column, Result, Table
from beliefrag.studies.study import Study

__all__ = ["blocks", "bounded", "in_words", "provenance", "table_block"]

_INTERVALS = (
    "In brackets: 95 % intervals of a seeded bootstrap over questions; ? marks one that rests on fewer than 20 of "
    "them. Where all questions are alike there is none."
)


def blocks(study: Study, result: Result, recordings: Mapping[str, Recording], picture: Path | None) -> Iterator[Block]:
    """What the page holds, from top to bottom."""
    yield Words(study.question)
    yield Heading("What came out")
    yield Items(result.findings)
    if picture is not None:
        yield Picture(picture, picture.name, result.caption)
        yield Words(f"{result.caption} Also as figure.pdf.")
    if result.published:
        yield Heading("Beside the paper")
        words = f"The values in the last column are theirs, {MARK}. {result.published_note}"
        yield Words(words.strip())
        rows = tuple((b.what, in_words(b.ours, b.digits), in_words(b.theirs, b.digits)) for b in result.published)
        yield Rows(("what", "here", "theirs"), rows)
    if result.tables:
        yield Heading("Numbers")
        yield Words(_INTERVALS)
    for table in result.tables:
        yield from table_block(table)
    yield Heading("How")
    yield Items(study.protocol)
    yield Heading("What it rests on")
    yield Words(result.n)
    yield Items(result.notes)
    for name, recording in recordings.items():
        yield Words(f"Run {name}:")
        yield Rows(("what", "which"), tuple((what, _flat(which)) for what, which in provenance(recording).items()))


def table_block(table: Table) -> Iterator[Block]:
    """A table with its title and note."""
    yield Words(f"{table.title}. {table.note}".strip())
    yield Rows(
        tuple(f"{column.name} ({column.unit})" if column.unit else column.name for column in table.columns),
        tuple(tuple(_cell(c, column) for c, column in zip(row, table.columns, strict=True)) for row in table.rows),
    )


def in_words(cell: Cell, digits: int = 3) -> str:
    """A cell as text: a number with so many digits and its interval, a dash for nothing."""
    if cell is None:
        return "-"
    if isinstance(cell, Estimate):
        if cell.low is None or cell.high is None:
            return f"{cell.value:,.{digits}f}"
        bounds = f"{cell.low:,.{digits}f} to {cell.high:,.{digits}f}"
        return f"{cell.value:,.{digits}f} ({bounds}{' ?' if cell.has_few_questions else ''})"
    return f"{cell:,.{digits}f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell


def bounded(number: Estimate, form: str = ".3f") -> str:
    """A number with its interval in a form of one's own; ? marks an interval that rests on few questions."""
    if number.low is None or number.high is None:
        return f"{number.value:{form}}"
    return (
        f"{number.value:{form}} ({number.low:{form}} to {number.high:{form}}{' ?' if number.has_few_questions else ''})"
    )


def _cell(cell: Cell, column: Column) -> str:
    return in_words(cell, column.digits)


def provenance(recording: Recording) -> dict[str, Any]:
    """What a run's numbers depend on. Nothing of it changes when the same run is made again."""
    run = recording.run
    used = run.calibration
    sources = {name: source for name in recording.datasets if (source := run.datasets[name].source)}
    return {
        "model": run.model,
        "verifier form": run.verifier,
        "retriever": run.searched_with,
        "calibration": f"{used.name} ({used.sha256[:12]})" if used else "none",
        "judge": run.judge or "none",
        "seed": run.seed,
        "methods": list(run.methods),
        "questions": {name: len(run.datasets[name].question_ids) for name in recording.datasets},
        **({"source": sources} if sources else {}),
        "seen by the calibration": sum(len(run.datasets[name].seen_by_calibration) for name in recording.datasets),
        **({"answerability": dict(run.interventions)} if run.interventions else {}),
        "thresholds": dict(run.thresholds),
        "budget": dict(run.budget),
    }


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
