"""The one table type: its cells stay values, and each form (text, Markdown, HTML, LaTeX, CSV, pandas) writes them."""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from beliefrag.errors import SettingsError
from beliefrag.runs.statistics import Estimate

__all__ = ["CellValue", "Column", "Table", "format_cell", "format_number"]

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


CellValue = Estimate | float | int | str | None
"""What a cell holds. None is a dash on a page and an empty field in a file."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    unit: str = ""
    """What its numbers are, such as "share of states" or "tokens"."""
    digits: int = 3
    """Decimal places of numbers that are not whole, in every form that people read."""
    bounded: bool = False
    """Whether its cells are `Estimate`s. Files for programs then have two more columns for the bounds."""

    @property
    def heading(self) -> str:
        """The name with the unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class Table:
    """A table that can be printed, written to a file in several formats, or shown in a notebook.

    All text in it is treated as text of somebody else: no form lets it become markup.
    """

    name: str
    """The name of its file, without an ending."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[CellValue, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"the table {self.name} has rows that do not fit its {len(self.columns)} columns")

    @classmethod
    def of_texts(
        cls, name: str, title: str, headings: Iterable[str], rows: Iterable[Sequence[CellValue]], note: str = ""
    ) -> Table:
        """Makes a table whose columns need no more than a heading."""
        return cls(name, title, tuple(map(Column, headings)), tuple(map(tuple, rows)), note)

    @property
    def caption(self) -> str:
        """The title and the note as sentences."""
        return f"{self.title}. {self.note}".strip() if self.title else self.note

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings, as people read them."""
        return tuple(column.heading for column in self.columns)

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The rows, as people read them."""
        return [
            tuple(format_cell(cell, column.digits) for cell, column in zip(row, self.columns, strict=True))
            for row in self.rows
        ]

    def to_text(self) -> str:
        """Gives the table for a terminal of fixed width, with aligned columns."""
        lines = [self.headings, *self.texts]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
            for line in lines
        )

    def to_markdown(self) -> str:
        """Gives the table in Markdown. No cell can break out of its column."""
        return "\n".join(
            [
                _markdown_line(self.headings),
                "|" + "---|" * len(self.columns),
                *map(_markdown_line, self.texts),
            ]
        )

    def to_html(self) -> str:
        """Gives the table in HTML, with all text escaped."""
        head = "".join(f"<th>{escape(heading)}</th>" for heading in self.headings)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.texts)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_latex(self) -> str:
        """Gives a table environment for a paper with the booktabs package."""
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_escape_latex(self.caption)}}}",
                rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
                r"\toprule",
                _latex_line(self.headings),
                r"\midrule",
                *map(_latex_line, self.texts),
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
            ]
        )

    def to_csv(self) -> str:
        """Gives the table for programs: nothing is rounded, and bounds have columns of their own."""
        names, rows = self._flat()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
        return text.getvalue()

    def to_pandas(self) -> Any:
        """Gives a pandas `DataFrame` with the columns of the CSV file.

        Raises:
            SettingsError: pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise SettingsError(
                f"A table can only become a DataFrame where pandas is installed: {error}.",
                remedy="pip install pandas, or use to_csv().",
            ) from None
        names, rows = self._flat()
        return pandas.DataFrame(rows, columns=names)

    def _repr_html_(self) -> str:
        caption = f"<p>{escape(self.caption)}</p>" if self.caption else ""
        return caption + self.to_html()

    def _flat(self) -> tuple[list[str], list[list[float | int | str | None]]]:
        names = [
            f"{column.name}{end}".replace(" ", "_")
            for column in self.columns
            for end in (("", "_low", "_high") if column.bounded else ("",))
        ]
        rows: list[list[float | int | str | None]] = []
        for row in self.rows:
            cells: list[float | int | str | None] = []
            for cell, column in zip(row, self.columns, strict=True):
                if column.bounded:
                    cells += [cell.value, cell.low, cell.high] if isinstance(cell, Estimate) else [cell, None, None]
                else:
                    cells.append(cell.value if isinstance(cell, Estimate) else cell)
            rows.append(cells)
        return names, rows


def format_cell(cell: CellValue, digits: int = 3) -> str:
    """Gives a cell as text: a number with its interval, a dash for None."""
    if cell is None:
        return "-"
    if isinstance(cell, Estimate):
        return format_number(cell, f",.{digits}f")
    return f"{cell:,.{digits}f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell


def format_number(number: Estimate, form: str = ".3f") -> str:
    """Gives a number with its interval; a question mark says that the interval rests on few questions."""
    if number.low is None or number.high is None:
        return f"{number.value:{form}}"
    few = " ?" if number.has_few_questions else ""
    return f"{number.value:{form}} ({number.low:{form}} to {number.high:{form}}{few})"


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escape_markdown, cells))} |"


def _escape_markdown(cell: str) -> str:
    # Names of datasets and models are somebody else's text: a bar in one makes no column, and a bracket no link.
    return re.sub(r"([\\|\[])", r"\\\1", " ".join(cell.split())).replace("<", "&lt;")


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(map(_escape_latex, cells)) + r" \\"


def _escape_latex(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}]", lambda match: _LATEX[match[0]], " ".join(text.split()))
