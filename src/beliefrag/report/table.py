"""Tables, and pages of text, tables and pictures, in every output format: text, Markdown, HTML, CSV, pandas.

Cells stay values until a format writes them. All text is treated as untrusted: no format lets it become markup.
"""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from beliefrag.errors import SettingsError
from beliefrag.runs.estimate import Estimate

CellValue = Estimate | float | int | str | None
"""The value of a cell. None is a dash on a page and an empty field in a file."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    unit: str = ""
    """What its numbers are, such as "share of states" or "tokens"."""
    digits: int = 3
    """Decimal places of fractions, in every format for people."""
    bounded: bool = False
    """Whether its cells are `Estimate`s. CSV files then have two more columns for the bounds."""

    @property
    def heading(self) -> str:
        """The name with the unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class Table:
    """A table that can be printed, written in several formats, or shown in a notebook."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[CellValue, ...], ...]
    note: str = ""
    shades: Mapping[tuple[int, int], str] = field(default_factory=dict)

    @classmethod
    def of_texts(
        cls, name: str, title: str, headings: Iterable[str], rows: Iterable[Sequence[CellValue]], note: str = ""
    ) -> Table:
        """Return a table whose columns have a heading and no unit."""
        return cls(name, title, tuple(map(Column, headings)), tuple(map(tuple, rows)), note)

    @classmethod
    def of_records(
        cls,
        name: str,
        title: str,
        records: Iterable[Mapping[str, Any]],
        note: str = "",
        digits: Mapping[str, int] = {},
    ) -> Table:
        """Return a table of records with the same headings, such as `dataset` and `tokens (per question)`.

        A column with an estimate is bounded. `digits` has the decimal places of columns that do not have three.
        """
        rows = [dict(record) for record in records]
        columns = []
        for heading in rows[0] if rows else ():
            column, _, unit = heading.removesuffix(")").partition(" (")
            has_bounds = any(isinstance(row[heading], Estimate) for row in rows)
            columns.append(Column(column, unit, digits.get(column, 3), has_bounds))
        return cls(name, title, tuple(columns), tuple(tuple(row.values()) for row in rows), note)

    @property
    def records(self) -> list[dict[str, CellValue]]:
        """The rows by the names of the columns."""
        return [{column.name: cell for column, cell in zip(self.columns, row, strict=True)} for row in self.rows]

    @property
    def caption(self) -> str:
        """The title and the note as sentences."""
        return f"{self.title}. {self.note}".strip() if self.title else self.note

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings with their units."""
        return tuple(column.heading for column in self.columns)

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The rows as text for people."""
        digits = [column.digits for column in self.columns]
        return [tuple(map(format_cell, row, digits)) for row in self.rows]

    def to_text(self) -> str:
        """Return aligned columns for a terminal."""
        lines = [self.headings, *self.texts]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
        return "".join("  ".join(line).rstrip() + "\n" for line in padded)

    def to_markdown(self) -> str:
        """Return a Markdown table. No cell can break out of its column."""
        head, *rows = ("| " + " | ".join(map(_escape_cell, line)) + " |" for line in (self.headings, *self.texts))
        return "\n".join([head, "|" + "---|" * len(self.columns), *rows])

    def to_html(self) -> str:
        """Return an HTML table with all text escaped."""
        head = "".join(f"<th>{escape(heading)}</th>" for heading in self.headings)
        body = "".join(
            "<tr>" + "".join(f"<td{self._style(y, x)}>{escape(cell)}</td>" for x, cell in enumerate(row)) + "</tr>"
            for y, row in enumerate(self.texts)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _style(self, row: int, column: int) -> str:
        colour = self.shades.get((row, column))
        return f' style="background:{escape(colour)}"' if colour else ""

    def to_csv(self) -> str:
        """Return CSV for programs: nothing is rounded, and bounds have columns of their own."""
        text = io.StringIO()
        names, rows = self._flatten()
        # The writer leaves the field of a None empty.
        csv.writer(text, lineterminator="\n").writerows([names, *rows])
        return text.getvalue()

    def to_pandas(self) -> Any:
        """Return a pandas `DataFrame` with the columns of the CSV file."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            remedy = "pip install pandas, or use to_csv()."
            raise SettingsError(f"A DataFrame needs pandas: {error}.", remedy=remedy) from None
        names, rows = self._flatten()
        return pandas.DataFrame(rows, columns=names)

    def _repr_html_(self) -> str:
        return (f"<p>{escape(self.caption)}</p>" if self.caption else "") + self.to_html()

    def _flatten(self) -> tuple[list[str], list[list[float | int | str | None]]]:
        names: list[str] = []
        for column in self.columns:
            ends = ("", "_low", "_high") if column.bounded else ("",)
            names += [f"{column.name}{end}".replace(" ", "_") for end in ends]
        rows: list[list[float | int | str | None]] = []
        for row in self.rows:
            rows.append([])
            for cell, column in zip(row, self.columns, strict=True):
                values = (cell.value, cell.low, cell.high) if isinstance(cell, Estimate) else (cell, None, None)
                rows[-1] += values if column.bounded else values[:1]
        return names, rows


def format_cell(cell: CellValue, digits: int = 3) -> str:
    """Return a cell as text: a number with its interval, a dash for None."""
    if cell is None or isinstance(cell, Estimate):
        return format_number(cell, f",.{digits}f")
    return f"{cell:,.{digits}f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell


def format_number(number: Estimate | None, form: str = ".3f") -> str:
    """Return a number with its interval; a question mark says that the interval rests on few questions."""
    if number is None:
        return "-"
    if number.low is None or number.high is None:
        return f"{number.value:{form}}"
    few = " ?" if number.has_few_questions else ""
    return f"{number.value:{form}} ({number.low:{form}} to {number.high:{form}}{few})"


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; display: block; overflow-x: auto; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.state { padding: .6rem .8rem; background: #eef4ee; }
.state.incomplete { background: #fbe9e7; font-weight: 600; }
svg { max-width: 46rem; width: 100%; height: auto; }
p { color: #555; margin: .2rem 0; }
"""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the second level."""

    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure. HTML holds the SVG element; Markdown shows the file beside the page, if there is one."""

    svg: str
    """From `figure_svg`, which escapes its text."""
    about: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to another page that is written in the same formats; `stem` is its address without the extension."""

    text: str
    stem: str


Block = Heading | str | tuple[str, ...] | Table | Picture | PageLink
"""A part of a page; a string is a paragraph, a tuple of strings a list."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page with a title. Empty lists and tables are left out."""

    title: str
    blocks: tuple[Block, ...]
    status: str = ""
    """What a reader must know first; it comes before the title."""
    complete: bool = True
    """Whether no number is missing; HTML highlights the status otherwise."""

    def to_markdown(self) -> str:
        """Return the page as Markdown."""
        parts = [_escape_markdown(self.status)] if self.status else []
        parts.append(f"# {_escape_markdown(self.title)}")
        return "\n\n".join([*parts, *(part for block in self.blocks for part in _markdown(block))]) + "\n"

    def to_html(self) -> str:
        """Return the page as one HTML file without scripts, fonts or addresses of other servers."""
        head = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_STYLE}</style></head><body>",
        )
        return "\n".join([*head, self._repr_html_(), "</body></html>\n"])

    def _repr_html_(self) -> str:
        state = "state" if self.complete else "state incomplete"
        parts = [f'<p class="{state}">{escape(self.status)}</p>'] if self.status else []
        return "\n".join([*parts, f"<h1>{escape(self.title)}</h1>", *filter(None, map(_html, self.blocks))])


def _markdown(block: Block) -> Iterator[str]:
    match block:
        case Heading(text):
            yield f"## {_escape_markdown(text)}"
        case str():
            yield _escape_markdown(block)
        case tuple() if block:
            yield "\n".join(f"- {_escape_markdown(item)}" for item in block)
        case Table(rows=rows, caption=caption) if rows:
            yield from (_escape_markdown(caption), block.to_markdown()) if caption else (block.to_markdown(),)
        case Picture(about=about, file=file) if file:
            yield f"![{_escape_markdown(about)}]({file})"
        case PageLink(text, stem):
            yield f"[{_escape_markdown(text)}]({stem}.md)"


def _html(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case str():
            return f"<p>{escape(block)}</p>"
        case tuple():
            return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in block)}</ul>" if block else ""
        case Table(rows=rows):
            return block._repr_html_() if rows else ""
        case Picture(svg):
            return svg
        case PageLink(text, stem):
            return f'<p><a href="{escape(stem)}.html">{escape(text)}</a></p>'


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*\[\]])", r"\\\1", " ".join(text.split())).replace("<", "&lt;")


def _escape_cell(cell: str) -> str:
    return re.sub(r"([\\|\[])", r"\\\1", " ".join(cell.split())).replace("<", "&lt;")
