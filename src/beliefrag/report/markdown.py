"""The report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beliefrag.report.sections import provenance, sections
from beliefrag.runs.summary import Summary

__all__ = ["markdown", "markdown_table"]


def markdown(summary: Summary) -> str:
    """All tables and the run's provenance; the first line says whether anything is missing."""
    parts = [summary.first_line, "", "# Benchmark report"]
    for section in sections(summary):
        parts += ["", f"## {section.title}", section.note, "", *markdown_table(section.headings, section.rows)]
    parts += ["", "## Provenance", "", *markdown_table(("what", "which"), provenance(summary))]
    return "\n".join(parts) + "\n"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; no cell can break out of its column."""
    return [_line(headings), "|" + "---|" * len(headings), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_safe, cells))} |"


def _safe(cell: str) -> str:
    # Names of datasets and models are somebody else's text: a bar in one makes no column, and a bracket no link.
    return re.sub(r"([\\|\[])", r"\\\1", " ".join(cell.split())).replace("<", "&lt;")
