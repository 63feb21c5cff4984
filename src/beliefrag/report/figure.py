"""Figures that black-and-white print can show: shared shapes and marks, saving, and the figures of several callers."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beliefrag.errors import explain_missing_extra
from beliefrag.methods import METHODS
from beliefrag.paths import cache_dir
from beliefrag.runs.statistics import Estimate, pareto_front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    from beliefrag.calibration import Guarantee
    from beliefrag.calibration.risk import RiskCoverageCurve

__all__ = [
    "DASHES",
    "HATCHES",
    "MARKERS",
    "CostPanel",
    "CostPoint",
    "draw_bars",
    "draw_curves",
    "draw_interval",
    "draw_quality_against_tokens",
    "draw_risk_coverage",
    "figure_svg",
    "label_axes",
    "label_points",
    "open_figure",
    "save_figure",
    "shorten",
]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")

_OFFSETS = ((9, 5), (9, -13), (-9, 5), (-9, -13), (0, 12), (0, -20), (9, 17), (9, -25), (-9, 17), (-9, -25))
"""Where a name may be, in points from its mark, the best place first."""


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
    """Save a figure in the formats that the files' extensions name. The same figure gives the same bytes.

    Raises:
        OSError: A file cannot be written.
    """
    files = list(paths)
    for path in files:
        undated = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
        figure.savefig(path, dpi=160, metadata=undated)
    return files


def figure_svg(figure: Figure, about: str, titles: Mapping[str, str] | None = None) -> str:
    """Return a figure as an SVG element for a page. The same figure gives the same text.

    Args:
        figure: The figure.
        about: The description for screen readers.
        titles: Tooltips, by the id of a mark (see `Artist.set_gid`).
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
    """Shorten an untrusted name for a figure, and keep it from being read as a formula."""
    return textwrap.shorten(text, width, placeholder=" …").replace("$", r"\$")


def label_axes(axes: Axes, title: str, x: str = "", y: str = "") -> None:
    """Write the title and the labels of axes, and draw a grid below the data."""
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


def draw_interval(
    axes: Axes, number: Estimate | None, across: float, colour: str, *, upright: bool = True, **style: Any
) -> None:
    """Draw the interval of a number, if it has one, as a line at that place of the other axis."""
    if number is not None and number.low is not None and number.high is not None:
        ends, place = (number.low, number.high), (across, across)
        style = {"linewidth": 1.3, "zorder": 1.8 if colour != "black" else 3, **style}
        axes.plot(*((place, ends) if upright else (ends, place)), color=colour, **style)


def draw_bars(axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[Any]], form: str = "") -> None:
    """Draw bars with their intervals: for each group one of each series, of which None is left out.

    Several series get a legend below the axes; `form` writes each value beside its bar.
    """
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
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, ncols=2)


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
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, ncols=2, handlelength=3)


def label_points(axes: Axes, points: Sequence[tuple[float, float, str]]) -> None:
    """Write a name beside each point, where it covers neither another name nor another mark.

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


@dataclass(frozen=True, slots=True)
class CostPoint:
    """A method in a panel of quality against tokens."""

    label: str
    tokens: Estimate
    quality: Estimate
    marker: str = "o"
    on_front: bool = False
    """Whether no other point is as good for less. Its mark is filled, and the step line passes through it."""


@dataclass(frozen=True, slots=True)
class CostPanel:
    """A panel of quality against tokens."""

    title: str
    points: tuple[CostPoint, ...]

    @classmethod
    def of_methods(cls, title: str, means: Mapping[str, tuple[Estimate, Estimate]]) -> CostPanel:
        """Return a panel with the mean tokens and the mean quality of each method, and the Pareto front marked."""
        front = pareto_front(*(np.array([pair[side].value for pair in means.values()]) for side in (0, 1)))
        order = list(METHODS)
        points = (
            CostPoint(METHODS.title(method), *pair, MARKERS[order.index(method) % len(MARKERS)], bool(first))
            for (method, pair), first in zip(means.items(), front, strict=True)
        )
        return cls(title, tuple(points))


def draw_quality_against_tokens(panels: Sequence[CostPanel], figure: Figure) -> None:
    """Draw panels of quality against tokens: further up is better, further left is cheaper.

    In an SVG file each mark has the id `point-PANEL-POINT`, with both numbers from 0 on.
    """
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    drawn = [figure.add_subplot(rows, columns, place + 1) for place in range(len(panels))]
    for place, (axes, panel) in enumerate(zip(drawn, panels, strict=True)):
        label_axes(axes, panel.title)
        _draw_panel(axes, panel, f"point-{place}")
    style: dict[str, Any] = {"linestyle": "", "markeredgecolor": "black", "markersize": 8}
    drawn[0].plot([], [], "o", markerfacecolor="black", label="on the Pareto front (step line)", **style)
    drawn[0].plot([], [], "o", markerfacecolor="white", label="another is as good for less", **style)
    drawn[0].plot([], [], color="0.7", label="95 % interval")
    drawn[0].legend(loc="lower right", fontsize=8, framealpha=1)
    figure.supxlabel("cost: mean tokens per question, read and written by the model (fewer is better)", fontsize=10)
    figure.supylabel("answer quality: mean F1 (0 to 1, higher is better)", fontsize=10)
    figure.draw_without_rendering()
    for axes, panel in zip(drawn, panels, strict=True):
        label_points(axes, [(p.tokens.value, p.quality.value, p.label) for p in panel.points])


def _draw_panel(axes: Axes, panel: CostPanel, gid: str) -> None:
    axes.xaxis.set_major_formatter("{x:,.0f}")
    style: dict[str, Any] = {"linewidth": 1.0, "zorder": 1.5}
    for place, point in enumerate(panel.points):
        draw_interval(axes, point.quality, point.tokens.value, "0.7", **style)
        draw_interval(axes, point.tokens, point.quality.value, "0.7", upright=False, **style)
        (mark,) = axes.plot([point.tokens.value], [point.quality.value], point.marker, color="black", ms=9, zorder=3)
        mark.set_markerfacecolor("black" if point.on_front else "white")
        mark.set_gid(f"{gid}-{place}")
    front = sorted((p.tokens.value, p.quality.value) for p in panel.points if p.on_front)
    # A step, not a slope: between two points nothing is better than the cheaper one of them.
    axes.step(*zip(*front, strict=True), where="post", color="0.3", linewidth=1.2, zorder=2)
    top, right = (
        max(n.high or n.value for n in own) for own in zip(*((p.quality, p.tokens) for p in panel.points), strict=True)
    )
    axes.set_xlim(-0.04 * right, 1.12 * right)
    axes.set_ylim(-0.03, min(1.04, max(0.25, 1.12 * top)))


def draw_risk_coverage(curve: RiskCoverageCurve, guarantees: Sequence[Guarantee], stem: Path) -> list[Path]:
    """Draw the share of wrong answers by the share of questions answered, with the targets; save it as PNG and PDF.

    Raises:
        OSError: They cannot be written.
    """
    figure = open_figure((7.0, 5.0))
    axes = figure.add_subplot()
    source = (
        f"{guarantees[0].questions:,} held-out questions of {', '.join(guarantees[0].datasets)}" if guarantees else ""
    )
    x = "share of questions answered  (further right: a lower threshold, fewer abstentions)"
    y = "share of the answers that are wrong  (lower is better)"
    label_axes(axes, f"What answering more questions costs in wrong answers\n{source}", x, y)
    band = f"{curve.level:.0%} interval, pointwise"
    axes.fill_between(curve.coverage, curve.low, curve.high, color="0.85", linewidth=0, label=band)
    axes.plot(curve.coverage, curve.risk, color="black", linewidth=1.4, label="wrong among the answers (held out)")
    for place, guarantee in enumerate(guarantees):
        dashes: Any = DASHES[1 + place % (len(DASHES) - 1)]
        words = f"at most {100 * guarantee.max_error:g} % wrong, {100 * guarantee.confidence:g} % confidence"
        axes.axhline(guarantee.max_error, color="0.35", linewidth=0.9, linestyle=dashes)
        found = guarantee.threshold is not None
        chosen = f"answer from {guarantee.threshold:.2f} on" if found else "no threshold found"
        points = ([guarantee.coverage], [guarantee.wrong / guarantee.answered]) if found else ([], [])
        style: dict[str, Any] = {"markersize": 8, "markerfacecolor": "white", "markeredgecolor": "black", "zorder": 3}
        marker, label = MARKERS[place % len(MARKERS)], f"{words}: {chosen}"
        axes.plot(*points, marker=marker, color="0.35", linestyle=dashes, label=label, clip_on=False, **style)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.legend(loc="upper right", fontsize=8, framealpha=1)
    return save_figure(figure, (stem.with_name(f"{stem.name}{ending}") for ending in (".png", ".pdf")))
