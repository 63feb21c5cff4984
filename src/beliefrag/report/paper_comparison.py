"""The paper's tables and figures with ours beside theirs, and a report of them as one HTML and one PDF file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from beliefrag.methods import METHODS
from beliefrag.report.figure import draw_interval, figure_svg, label_axes, open_figure
from beliefrag.report.published import MARK, PublishedTable, published_tables
from beliefrag.report.table import Block, CellValue, Heading, Page, Picture, Table, format_number
from beliefrag.runs.statistics import Estimate
from beliefrag.runs.summary import MEAN, MEASURES, Cell, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GAINS = ("#EAF3F8", "#D7E9F3", "#C2DDEA")
_LOSSES = ("#FAEEEE", "#F4DDDC", "#EEC7C4")
_BINS = (0.01, 0.05, 0.10)
"""The paper's colours, by the absolute change of F1 from Static on the same dataset."""
_BASE = "static"
_A4 = (11.7, 8.3)
_LINES = 46
_CHARACTERS = 130
_ABOVE_TABLE = 8
_LARGE = 10


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure with its caption, for both files."""

    figure: Figure
    caption: str


Part = Block | Drawn


def shade_of(change: float) -> str:
    """Return the paper's colour for a change of F1 from Static; empty below the first bin."""
    # A difference of two printed numbers is as exact as they are.
    size = sum(round(abs(change), 9) >= least for least in _BINS)
    return (_GAINS if change > 0 else _LOSSES)[size - 1] if size else ""


def tables_with_paper(summary: Summary, backbone: str = "") -> Iterator[Table]:
    """Yield the paper's tables of a backbone, or all: in each cell ours, theirs and the difference.

    A table that has none of our datasets, methods or measures is left out.
    """
    cells = {(cell.dataset, cell.method): cell for cell in summary.cells}
    for table in published_tables().values():
        known = [cell for cell in summary.cells if cell.method in table.rows and cell.measures[table.metric]]
        # A table without datasets has the mean over all six sets alone.
        over = table.datasets or published_tables()["gpt_oss_f1"].datasets
        # A table of means says nothing where not all of its sets are here.
        is_whole = bool(table.datasets) or set(over) <= set(summary.run.datasets)
        if is_whole and backbone in ("", table.backbone) and any(cell.dataset in over for cell in known):
            yield _compare_with_paper(table, over, summary, cells)


def _compare_with_paper(
    table: PublishedTable, over: Sequence[str], summary: Summary, cells: Mapping[tuple[str, str], Cell]
) -> Table:
    scale = 1000.0 if table.unit.startswith("thousands") else 1.0
    mean = [MEAN] if set(over) <= set(summary.run.datasets) else []
    scopes = [*(name for name in table.datasets if name in summary.run.datasets), *mean]
    rows: list[tuple[CellValue, ...]] = []
    shades: dict[tuple[int, int], str] = {}
    for place, method in enumerate(name for name in METHODS if name in table.rows and name in summary.run.methods):
        row: list[CellValue] = [METHODS.title(method)]
        for scope in scopes:
            ours, base = (_find_number(cells, scope, name, table.metric, over) for name in (method, _BASE))
            theirs = table.rows[method].mean if scope == MEAN else table.value(method, scope)
            if table.metric == "f1" and ours and base and (colour := shade_of(ours.value - base.value)):
                shades[place, len(row)] = colour
            if ours and scale != 1.0:
                low, high = (None if end is None else end / scale for end in (ours.low, ours.high))
                ours = replace(ours, value=ours.value / scale, low=low, high=high)
            gap = "-" if ours is None or theirs is None else f"{ours.value - theirs:+.3f}"
            row.append(f"{format_number(ours)} | {'-' if theirs is None else f'{theirs:.3f}'} | {gap}")
        rows.append(tuple(row))
    note = f"Ours with its 95 % interval | theirs, {MARK}, {table.n} questions for each dataset | the difference."
    if shades:
        note += " Colours, as the paper's, are by the change of our F1 from our Static: from .01, .05 and .10 on."
    title = f"{MEASURES[table.metric]} ({table.unit}) beside {table.backbone}: {table.what}"
    return replace(Table.of_texts(table.id, title, ("method", *scopes), rows, note), shades=shades)


def _find_number(
    cells: Mapping[tuple[str, str], Cell], scope: str, method: str, metric: str, over: Sequence[str]
) -> Estimate | None:
    """Return our number; a mean over other datasets than those of the run is a plain one, without an interval."""
    cell = cells.get((scope, method))
    if cell is None or (scope == MEAN and set(cell.rests_on.get(metric, ())) != set(over)):
        own = [each.measures[metric] for name in over if (each := cells.get((name, method)))]
        found = [each.value for each in own if each]
        return Estimate(fmean(found)) if scope == MEAN and len(found) == len(over) else None
    return cell.measures[metric]


def draw_comparison(values: Sequence[tuple[str, Estimate | None, float]], title: str) -> Drawn | None:
    """Draw what a study found, with its interval, beside what the paper printed; None without anything of ours."""
    shown = [(what, ours, theirs) for what, ours, theirs in values if ours is not None]
    if not shown:
        return None
    figure = open_figure((9.0, 1.6 + 0.45 * len(shown)))
    axes = figure.subplots()
    for place, (_, ours, theirs) in enumerate(reversed(shown)):
        draw_interval(axes, ours, place, "0.4", upright=False)
        axes.plot([ours.value], [place], "o", color="black", label="" if place else "ours")
        axes.plot([theirs], [place], "D", mfc="white", mec="black", label="" if place else "theirs")
    axes.set_yticks(range(len(shown)), [textwrap.fill(what, 60) for what, _, _ in reversed(shown)], fontsize=8)
    label_axes(axes, title)
    # Shares stay readable beside counts.
    if max(theirs for _, _, theirs in shown) > _LARGE:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(left=0)
    axes.legend(fontsize=8, frameon=False)
    return Drawn(figure, f"{title}: ours (circle, 95 % interval) beside the paper's value (diamond).")


def write_report(title: str, status: str, parts: Sequence[Part], stem: Path, *, complete: bool) -> list[Path]:
    """Write the parts as `STEM.html` and `STEM.pdf`, each through a temporary file."""
    blocks: list[Block] = []
    for part in parts:
        if isinstance(part, Drawn):
            blocks += [Picture(figure_svg(part.figure, part.caption), part.caption), part.caption]
        else:
            blocks.append(part)
    page = Page(title, tuple(blocks), status=status, complete=complete)
    files = [stem.with_suffix(".html"), stem.with_suffix(".pdf")]
    new = [path.with_name(f"{path.name}.new") for path in files]
    new[0].write_text(page.to_html(), encoding="utf-8")
    _write_pdf(new[1], [Heading(title), status, *parts])
    for unfinished, path in zip(new, files, strict=True):
        unfinished.replace(path)
    return files


def _write_pdf(path: Path, parts: Sequence[Part]) -> None:
    from matplotlib.backends.backend_pdf import PdfPages  # noqa: PLC0415 (slow to load)

    lines: list[str] = []
    # The same report gives the same bytes.
    with PdfPages(path, metadata={"CreationDate": None}) as pdf:

        def flush() -> None:
            for start in range(0, len(lines), _LINES):
                figure = open_figure(_A4)
                text = "\n".join(lines[start : start + _LINES]).replace("$", r"\$")
                figure.text(0.04, 0.96, text, va="top", fontsize=9)
                pdf.savefig(figure)
            lines.clear()

        for part in parts:
            match part:
                case Heading(text):
                    lines += ["", text.upper(), ""]
                case str():
                    lines += textwrap.wrap(part, _CHARACTERS)
                case tuple():
                    lines += [line for item in part for line in textwrap.wrap(f"- {item}", _CHARACTERS)]
                case Table(rows=rows) if rows:
                    if len(lines) > _ABOVE_TABLE:
                        flush()
                    pdf.savefig(_draw_table(part, [*lines, *textwrap.wrap(part.caption, _CHARACTERS)]))
                    lines.clear()
                case Drawn(figure, caption):
                    # The page grows by the text above the figure: a caption never has a page to itself.
                    text = "\n".join([*lines, *textwrap.wrap(caption, _CHARACTERS)])
                    figure.text(0, 1.02, text.replace("$", r"\$"), va="bottom", fontsize=9)
                    pdf.savefig(figure, bbox_inches="tight")
                    lines.clear()
        flush()


def _draw_table(table: Table, above: Sequence[str]) -> Figure:
    figure = open_figure(_A4)
    figure.suptitle("\n".join(above).replace("$", r"\$"), x=0.04, ha="left", fontsize=8)
    axes = figure.subplots()
    axes.axis("off")
    cells = [[cell.replace(" | ", "\n").replace("$", r"\$") for cell in row] for row in table.texts]
    colours = [[table.shades.get((y, x), "white") for x in range(len(row))] for y, row in enumerate(cells)]
    style: dict[str, Any] = {"cellLoc": "center", "loc": "center", "bbox": [0, 0, 1, 1]}
    drawn = axes.table(cellText=cells, colLabels=table.headings, cellColours=colours, **style)
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(7)
    return figure
