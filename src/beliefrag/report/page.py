"""The report as one HTML page that needs nothing else: no script, no font, no address."""

from __future__ import annotations

from html import escape

from beliefrag.report.figure import f1_against_tokens
from beliefrag.report.html import html_document, html_table
from beliefrag.report.means import rests_on_some
from beliefrag.report.sections import provenance, sections
from beliefrag.runs.summary import Summary

__all__ = ["page"]

_ABOUT_FIGURE = "Means over datasets, with the 95 % interval of F1. A method without such a mean has no point."


def page(summary: Summary) -> str:
    """The figure, all tables and the provenance. All text from the run is escaped."""
    state = "state" if summary.complete else "state incomplete"
    parts = [f'<p class="{state}">{escape(summary.first_line)}</p>', "<h1>Benchmark report</h1>"]
    if figure := f1_against_tokens(summary):
        over = rests_on_some(summary, "f1")
        about = f"{_ABOUT_FIGURE} Both numbers are over {', '.join(over)}." if over else _ABOUT_FIGURE
        parts += ["<h2>F1 against tokens</h2>", f"<p>{escape(about)}</p>", figure]
    for section in sections(summary):
        parts += [f"<h2>{escape(section.title)}</h2><p>{escape(section.note)}</p>"]
        parts += [html_table(section.headings, section.rows)]
    parts += ["<h2>Provenance</h2>", html_table(("what", "which"), provenance(summary))]
    return html_document("Benchmark report", parts)
