"""Figures: shapes that can be told apart in black and white, one way to save them, and quality against tokens."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beliefrag.errors import explain_missing_extra
from beliefrag.paths import cache_dir
from beliefrag.runs.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

__all__ = [
    "DASHES",
    "HATCHES",
    "MARKERS",
    "MEAN_F1",
    "CostPanel",
    "CostPoint",
    "draw_interval",
    "draw_quality_against_tokens",
    "figure_svg",
    "label_points",
    "open_figure",
    "save_figure",
    "shorten",
]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")

_OFFSETS = ((9, 5), (9, -13), (-9, 5), (-9, -13), (0, 12), (0, -20), (9, 17), (9, -25), (-9, 17), (-9, -25))
"""Where a name may stand, in points from its mark, the best place first."""
_COST = "cost: mean tokens per question, read and written by the model (fewer is better)"
MEAN_F1 = "answer quality: mean F1 (0 to 1, higher is better)"


@dataclass(frozen=True, slots=True)
class CostPoint:
    """One point of quality against tokens: a method, or an operating point of one."""

    label: str
    tokens: Estimate
    quality: Estimate
    marker: str = "o"
    on_front: bool = False
    """Whether no other point is as good for less. The mark is then filled, and the step line passes through it."""


@dataclass(frozen=True, slots=True)
class CostPanel:
    """One panel of quality against tokens."""

    title: str
    points: tuple[CostPoint, ...]
    """Points with a mark each and their names beside them; those without a name have small marks."""


def open_figure(size: tuple[float, float]) -> Figure:
    """Opens an empty figure of that size in inches, for files and never for a window."""
    # Matplotlib keeps a list of fonts; it belongs with all else that is kept.
    os.environ.setdefault("MPLCONFIGDIR", str(cache_dir() / "matplotlib"))
    with explain_missing_extra("A figure", "bench"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (slow to load)
        from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, paths: Iterable[Path]) -> list[Path]:
    """Saves a figure into files, whose endings say in which format. The same figure gives the same bytes.

    Raises:
        OSError: A file cannot be written.
    """
    files = list(paths)
    for path in files:
        undated = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
        figure.savefig(path, dpi=160, metadata=undated)
    return files


def figure_svg(figure: Figure, about: str, titles: Mapping[str, str] | None = None) -> str:
    """Gives a figure as an SVG element for a page. The same figure gives the same text.

    Args:
        figure: What to write.
        about: What it shows, for people who cannot see it.
        titles: For the id of a mark (see `Artist.set_gid`), what a page says when the pointer is on it.
    """
    from matplotlib import rc_context  # noqa: PLC0415 (slow to load)

    text = io.StringIO()
    undated = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "beliefrag"}):
        figure.savefig(text, format="svg", metadata=undated)
    svg = text.getvalue()
    svg = svg[svg.index("<svg ") :].replace("<svg ", f'<svg role="img" aria-label="{escape(about)}" ', 1)
    for gid, title in (titles or {}).items():
        svg = svg.replace(f'<g id="{gid}">', f'<g id="{gid}"><title>{escape(title)}</title>')
    return svg


def shorten(text: str, width: int = 40) -> str:
    """Makes somebody's name short enough for a figure, and keeps it from being read as a formula."""
    return textwrap.shorten(text, width, placeholder=" …").replace("$", r"\$")


def draw_interval(
    axes: Axes, number: Estimate, across: float, colour: str, *, upright: bool = True, **style: Any
) -> None:
    """Draws the interval of a number as a line, upright or level; draws nothing where there is no interval.

    Args:
        axes: Where to draw.
        number: The number.
        across: The place on the other axis.
        colour: The colour of the line.
        upright: Whether the number is on the upright axis.
        style: More for `Axes.plot`.
    """
    if number.low is not None and number.high is not None:
        ends, place = (number.low, number.high), (across, across)
        style = {"linewidth": 1.3, "zorder": 1.8 if colour != "black" else 3, **style}
        axes.plot(*((place, ends) if upright else (ends, place)), color=colour, **style)


def label_points(axes: Axes, points: Sequence[tuple[float, float, str]]) -> None:
    """Writes a name beside each point, where it covers neither another name nor another mark.

    The figure's layout must be settled, see `Figure.draw_without_rendering`.
    """
    marks = [axes.transData.transform((x, y)) for x, y, _ in points]
    taken: list[Bbox] = []
    for place, (x, y, words) in enumerate(points):
        others = [mark for other, mark in enumerate(marks) if other != place]
        for right, up in _OFFSETS:
            side = "left" if right > 0 else "right" if right < 0 else "center"
            text = axes.annotate(words, (x, y), (right, up), textcoords="offset points", fontsize=9, ha=side, zorder=4)
            # Lines may pass below a name, and not through it.
            text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85})
            box = text.get_window_extent()
            inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 and axes.bbox.y0 <= box.y0
            clear = not any(box.overlaps(other) for other in taken)
            clear = clear and not any(box.padded(4).contains(mark[0], mark[1]) for mark in others)
            if (inside and clear) or (right, up) == _OFFSETS[-1]:
                taken.append(box)
                break
            text.remove()


def draw_quality_against_tokens(panels: Sequence[CostPanel], figure: Figure, *, quality: str = MEAN_F1) -> None:
    """Draws quality against tokens, a panel each: further up is better, further left is cheaper.

    Shapes tell the points apart and names stand beside them, so that nothing is lost in black and white. Each mark has
    the id `point-PANEL-POINT` in an SVG file, with both numbers from 0 on.

    Args:
        panels: What to draw.
        figure: Where to draw it.
        quality: The label of the upright axis.
    """
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    drawn = [figure.add_subplot(rows, columns, place + 1) for place in range(len(panels))]
    for place, (axes, panel) in enumerate(zip(drawn, panels, strict=True)):
        _draw_panel(axes, panel, f"point-{place}")
        axes.set_title(panel.title, fontsize=11)
    _add_legend(drawn[0], panels[0])
    figure.supxlabel(_COST, fontsize=10)
    figure.supylabel(quality, fontsize=10)
    figure.draw_without_rendering()
    for axes, panel in zip(drawn, panels, strict=True):
        label_points(axes, [(p.tokens.value, p.quality.value, p.label) for p in panel.points if p.label])


def _draw_panel(axes: Axes, panel: CostPanel, gid: str) -> None:
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    style: dict[str, Any] = {"linewidth": 1.0, "zorder": 1.5, "linestyle": "-"}
    for point in panel.points:
        draw_interval(axes, point.quality, point.tokens.value, "0.7", **style)
        draw_interval(axes, point.tokens, point.quality.value, "0.7", upright=False, **style)
    front = sorted((p for p in panel.points if p.on_front), key=lambda p: p.tokens.value)
    # A step, not a slope: between two points nothing is better than the cheaper one of them.
    places = [p.tokens.value for p in front], [p.quality.value for p in front]
    axes.step(*places, where="post", color="0.3", linewidth=1.2, zorder=2)
    for place, point in enumerate(panel.points):
        _draw_mark(axes, point, 9 if point.label else 5, f"{gid}-{place}")
    top, right = (
        max(map(_upper, column)) for column in zip(*((p.quality, p.tokens) for p in panel.points), strict=True)
    )
    axes.set_xlim(-0.04 * right, 1.12 * right)
    axes.set_ylim(-0.03, min(1.04, max(0.25, 1.12 * top)))


def _upper(number: Estimate) -> float:
    return number.value if number.high is None else number.high


def _draw_mark(axes: Axes, point: CostPoint, size: float, gid: str) -> None:
    (mark,) = axes.plot(
        [point.tokens.value],
        [point.quality.value],
        point.marker,
        markersize=4 * size / 3 if point.marker == "*" else size,
        markerfacecolor="black" if point.on_front else "white",
        markeredgecolor="black",
        zorder=3,
    )
    mark.set_gid(gid)


def _add_legend(axes: Axes, panel: CostPanel) -> None:
    style: dict[str, Any] = {"linestyle": "", "markeredgecolor": "black", "markersize": 8}
    axes.plot([], [], "o", markerfacecolor="black", label="on the Pareto front (step line)", **style)
    if any(point.label for point in panel.points):
        axes.plot([], [], "o", markerfacecolor="white", label="beaten: another is as good for less", **style)
    axes.plot([], [], color="0.7", label="95 % interval")
    axes.legend(loc="lower right", fontsize=8, framealpha=1)
