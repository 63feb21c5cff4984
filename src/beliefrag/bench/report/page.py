"""The report as one HTML page that needs nothing else: no script, no font, no address."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from beliefrag.bench.report.figure import f1_against_tokens
from beliefrag.bench.report.sections import provenance, sections
from beliefrag.bench.summary import Summary

__all__ = ["page"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; display: block; overflow-x: auto; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.state { padding: .6rem .8rem; background: #eef4ee; }
.state.incomplete { background: #fbe9e7; font-weight: 600; }
svg { max-width: 46rem; width: 100%; }
p { color: #555; margin: .2rem 0; }
"""
_ABOUT_FIGURE = "Means over datasets, with the 95 % interval of F1. A method without such a mean has no point."


def page(summary: Summary) -> str:
    """The figure, all tables and the provenance. All text from the run is escaped."""
    state = "state" if summary.complete else "state incomplete"
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Benchmark report</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<style>{_STYLE}</style></head><body><p class="{state}">{escape(summary.first_line)}</p>',
        "<h1>Benchmark report</h1>",
    ]
    if figure := f1_against_tokens(summary):
        parts += ["<h2>F1 against tokens</h2>", f"<p>{_ABOUT_FIGURE}</p>", figure]
    for section in sections(summary):
        parts += [f"<h2>{escape(section.title)}</h2><p>{escape(section.note)}</p>"]
        parts += [_table(section.headings, section.rows)]
    parts += ["<h2>Provenance</h2>", _table(("what", "which"), provenance(summary)), "</body></html>"]
    return "\n".join(parts) + "\n"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
