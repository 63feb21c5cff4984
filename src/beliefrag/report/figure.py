"""Figures that black-and-white print can show: shared shapes and marks, saving, and the figures of several callers."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beliefrag.errors import explain_missing_extra
from beliefrag.methods import METHODS
from beliefrag.runs.statistics import Estimate, pareto_front
from beliefrag.settings import cache_dir

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*", "d", "8", "H", "$+$")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")

_BELOW: dict[str, Any] = {"fontsize": 8, "loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "frameon": False}
_WHITE: dict[str, Any] = {"markersize": 8, "markerfacecolor": "white", "markeredgecolor": "black", "zorder": 3}


def open_figure(size: tuple[float, float]) -> Figure:
    """Return an empty figure of that size in inches, for files and never for a window."""
    os.environ.setdefault("MPLCONFIGDIR", str(cache_dir() / "matplotlib"))
    with explain_missing_extra("A figure", "bench"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (slow to load)
        from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, paths: Iterable[Path]) -> list[Path]:
    """Save a figure in the formats that the files' extensions name. The same figure gives the same bytes."""
    files = list(paths)
    for path in files:
        undated = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
        figure.savefig(path, dpi=160, metadata=undated)
    return files


def figure_svg(figure: Figure, about: str) -> str:
    """Return a figure as an SVG element for a page, with what it is about. The same figure gives the same text."""
    from matplotlib import rc_context  # noqa: PLC0415 (slow to load)

    text = io.StringIO()
    undated = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "beliefrag"}):
        figure.savefig(text, format="svg", metadata=undated)
    svg = text.getvalue()
    return svg[svg.index("<svg ") :].replace("<svg ", f'<svg role="img" aria-label="{escape(about)}" ', 1)


def shorten(text: str, width: int = 40) -> str:
    """Shorten an untrusted name for a figure, and keep it from being read as a formula."""
    return textwrap.shorten(text, width, placeholder=" …").replace("$", r"\$")


def label_axes(axes: Axes, title: str, x: str = "", y: str = "") -> None:
    """Write the title and the labels of axes, and draw a grid below the data."""
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


def draw_interval(axes: Axes, number: Estimate, across: float, colour: str, *, upright: bool = True) -> None:
    """Draw the interval of a number, if it has one, as a line at that place of the other axis."""
    if number.low is not None and number.high is not None:
        ends, place = (number.low, number.high), (across, across)
        order = 1.8 if colour != "black" else 3
        axes.plot(*((place, ends) if upright else (ends, place)), color=colour, linewidth=1.2, zorder=order)


def draw_bars(
    axes: Axes,
    title: str,
    y: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[Estimate | None]],
    *,
    form: str = "",
    line: float | None = None,
) -> None:
    """Draw bars with their intervals: for each group one of each series, of which None is left out.

    Several series get a legend below the axes; `form` writes each value beside its bar; `line` is a dotted level.
    """
    label_axes(axes, title, y=y)
    if line is not None:
        axes.axhline(line, color="black", linestyle=":", linewidth=1.2)
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        style: dict[str, Any] = {"color": "0.88", "edgecolor": "black", "hatch": HATCHES[number % len(HATCHES)]}
        axes.bar([0], [0], 0, label=name, **style)
        for group, estimate in enumerate(values):
            x = group + width * (number - (len(series) - 1) / 2)
            if estimate is not None:
                axes.bar(x, estimate.value, 0.9 * width, **style)
                draw_interval(axes, estimate, x, "black")
                offset: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "ha": "right"}
                axes.annotate(f"{estimate.value:{form}}" if form else "", (x, estimate.value), (-4, 3), **offset)
    axes.set_xticks(range(len(groups)), [textwrap.fill(shorten(group), 14) for group in groups])
    axes.tick_params(axis="x", labelsize=8, labelrotation=30 if len(groups) > 5 else 0)
    axes.grid(axis="x", visible=False)
    if len(series) > 1:
        axes.legend(ncols=2, **_BELOW)


def draw_curves(axes: Axes, series: Mapping[str, Sequence[tuple[float, Estimate | None]]], apart: float = 0.0) -> None:
    """Draw a curve with its intervals for each series, a little apart from each other, with a legend below the axes."""
    for number, (name, points) in enumerate(series.items()):
        aside = apart * (number - (len(series) - 1) / 2)
        shown = [(x + aside, estimate) for x, estimate in points if estimate is not None]
        for x, estimate in shown:
            draw_interval(axes, estimate, x, "0.65")
        marks: dict[str, Any] = {"marker": MARKERS[number % len(MARKERS)], "linestyle": DASHES[number % len(DASHES)]}
        fill = "black" if number == len(series) - 1 else "white"
        values = [estimate.value for _, estimate in shown]
        axes.plot([x for x, _ in shown], values, color="black", markerfacecolor=fill, label=name, **marks)
    axes.legend(ncols=2, handlelength=3, **_BELOW)


CostMeans = Mapping[str, tuple[Estimate, Estimate]]


def methods_on_front(means: CostMeans) -> list[str]:
    """Return the methods that no other one beats, from the cheapest to the best."""
    tokens, quality = (np.array([pair[side].value for pair in means.values()]) for side in (0, 1))
    on_front = [name for name, kept in zip(means, pareto_front(tokens, quality), strict=True) if kept]
    return sorted(on_front, key=lambda name: means[name][0].value)


def draw_quality_against_tokens(panels: Mapping[str, CostMeans], figure: Figure) -> None:
    """Draw panels of quality against tokens, by their titles: further up is better, further left is cheaper."""
    columns = min(2, len(panels))
    for panel, (title, means) in enumerate(panels.items()):
        axes = figure.add_subplot(-(-len(panels) // columns), columns, panel + 1)
        label_axes(axes, title)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        front = methods_on_front(means)
        # A step, not a slope: between two points nothing is better than the cheaper one of them.
        steps = [[means[name][side].value for name in front] for side in (0, 1)]
        axes.step(*steps, where="post", color="0.3", linewidth=1.2, label="Pareto front (filled)")
        for place, (name, (tokens, quality)) in enumerate(means.items()):
            draw_interval(axes, quality, tokens.value, "0.7")
            draw_interval(axes, tokens, quality.value, "0.7", upright=False)
            style = {**_WHITE, "markerfacecolor": "black" if name in front else "white", "linestyle": ""}
            style["marker"] = MARKERS[place % len(MARKERS)]
            axes.plot([tokens.value], [quality.value], label=METHODS.title(name), **style)
        right, top = (max(pair[side].high or pair[side].value for pair in means.values()) for side in (0, 1))
        axes.set_xlim(-0.04 * right, 1.12 * right)
        axes.set_ylim(-0.03, min(1.04, max(0.25, 1.12 * top)))
    figure.supxlabel("cost: mean tokens per question, read and written by the model (fewer is better)", fontsize=10)
    figure.supylabel("answer quality: mean F1 (0 to 1, higher is better)", fontsize=10)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=9, frameon=False)
