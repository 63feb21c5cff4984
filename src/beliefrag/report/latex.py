"""The report's tables as LaTeX, for a paper with the booktabs package."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beliefrag.report.sections import sections
from beliefrag.runs.summary import Summary

__all__ = ["latex"]

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def latex(summary: Summary) -> str:
    """One table environment for each table; the first line, a comment, says whether anything is missing."""
    parts = [f"% {summary.first_line}"]
    for section in sections(summary):
        columns = "l" + "r" * (len(section.headings) - 1)
        parts += [
            "",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_escaped(section.title)}. {_escaped(section.note)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            _line(section.headings),
            r"\midrule",
            *(_line(row) for row in section.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    return "\n".join(parts) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(_escaped(cell) for cell in cells) + r" \\"


def _escaped(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}]", lambda match: _SPECIAL[match[0]], " ".join(text.split()))
