"""A run's numbers for people: terminal, Markdown, CSV, LaTeX and one HTML page, all from one summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from beliefrag.report.latex import latex
from beliefrag.report.markdown import markdown
from beliefrag.report.means import mean_notes
from beliefrag.report.page import page
from beliefrag.report.sections import costs
from beliefrag.report.table import HEADINGS, rows
from beliefrag.report.tidy import tidy_csv
from beliefrag.runs.errors import RunError
from beliefrag.runs.summary import Summary

__all__ = ["FILES", "HEADINGS", "costs", "latex", "markdown", "mean_notes", "page", "rows", "tidy_csv", "write_report"]

FILES: Mapping[str, Callable[[Summary], str]] = {
    "report.md": markdown,
    "results.csv": tidy_csv,
    "tables.tex": latex,
    "report.html": page,
}
"""What a report is made of."""


def write_report(summary: Summary, folder: Path) -> list[Path]:
    """Writes all forms of the report into a folder, over those of an earlier one.

    Raises:
        RunError: They cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, form in FILES.items():
            (folder / name).write_text(form(summary), encoding="utf-8")
    except OSError as error:
        raise RunError(f"The report cannot be written to {folder}: {error.strerror}.") from error
    return [folder / name for name in FILES]
