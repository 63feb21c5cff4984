"""The frontier as a picture: further up is better, further left is cheaper. Shapes, not colours, tell points apart."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from beliefrag.calibration.tuning.sweep import Point
from beliefrag.calibration.tuning.tune import Tuning
from beliefrag.runs.cells import MEASURES
from beliefrag.runs.samples import Partition
from beliefrag.runs.statistics import Estimate

__all__ = ["draw_frontier", "save_frontier"]

_QUALITY = {
    "f1": "answer quality: mean F1 (0 to 1, higher is better)",
    "exact_match": "answer quality: share of exact answers (higher is better)",
    "cover": "answer quality: share of answers that contain the right one (higher is better)",
    "judge": "answer quality: share that the judge calls right (higher is better)",
}


def save_frontier(tuning: Tuning, *paths: Path) -> None:
    """Draws the frontier into files, whose endings say in which format. The same tuning gives the same bytes."""
    figure = draw_frontier(tuning)
    for path in paths:
        moment = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
        figure.savefig(path, dpi=160, metadata=moment)


def draw_frontier(tuning: Tuning) -> Figure:
    """Every point that could be told, the frontier with intervals, the chosen point and the run's own thresholds."""
    figure = Figure(figsize=(8.0, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    title = MEASURES[tuning.recorded.measure]
    axes.set_xlabel("cost: mean tokens per question, read and written by the model (fewer is better)")
    axes.set_ylabel(_QUALITY[tuning.recorded.measure])
    axes.set_title(f"{title} against tokens on {_names(tuning)}")
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    _cloud(axes, tuning.points)
    _frontier(axes, tuning.frontier)
    if isinstance(tuning.own, Point):
        _marked(axes, tuning.own, "s", "white", "current thresholds")
    if tuning.chosen:
        _marked(axes, tuning.chosen, "*", "black", "chosen point")
    if tuning.checked and isinstance(tuning.checked.chosen, Point):
        _bars(axes, [tuning.checked.chosen], "0.45", "dashed")
        _marked(axes, tuning.checked.chosen, "*", "white", "chosen point, on held-out questions")
    if tuning.goal and tuning.goal.max_tokens is not None:
        axes.axvline(tuning.goal.max_tokens, color="0.4", linestyle=":", label="token budget")
    if tuning.goal and tuning.goal.min_quality is not None:
        axes.axhline(tuning.goal.min_quality, color="0.4", linestyle=":", label=f"{title} floor")
    # A little beyond the ends: a mark at nought or one is to be seen whole.
    axes.set_xlim(left=-0.03 * axes.get_xlim()[1])
    axes.set_ylim(-0.04, 1.04)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _names(tuning: Tuning) -> str:
    names = ", ".join(tuning.recorded.parts[Partition.XSEL])
    # Dollar signs in somebody's name would be read as a formula.
    return textwrap.shorten(names, 60, placeholder=" …").replace("$", r"\$")


def _cloud(axes: Axes, points: Iterable[Point]) -> None:
    places = sorted({(point.tokens, point.quality) for point in points})
    label = "operating point that recorded states can tell"
    axes.plot([x for x, _ in places], [y for _, y in places], "o", color="0.75", markersize=3, label=label)


def _frontier(axes: Axes, points: Iterable[Point]) -> None:
    shown = list(points)
    _bars(axes, shown, "0.55", "solid")
    # A step, not a slope: between two points nothing is better than the cheaper one of them.
    axes.step(
        [point.tokens for point in shown],
        [point.quality for point in shown],
        "o-",
        where="post",
        color="black",
        markersize=5,
        linewidth=1.2,
        label="frontier: nothing better costs less (bars: 95 % intervals)",
    )


def _bars(axes: Axes, points: Iterable[Point], shade: str, style: str) -> None:
    for point in points:
        for horizontal, estimate in ((False, point.means["quality"]), (True, point.means["tokens"])):
            if ends := _ends(estimate):
                x = ends if horizontal else (point.tokens, point.tokens)
                y = (point.quality, point.quality) if horizontal else ends
                axes.plot(x, y, color=shade, linewidth=0.9, linestyle=style, zorder=1.5)


def _ends(estimate: Estimate) -> tuple[float, float] | None:
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)


def _marked(axes: Axes, point: Point, marker: str, fill: str, label: str) -> None:
    size = 17 if marker == "*" else 11
    axes.plot(
        [point.tokens],
        [point.quality],
        marker,
        markersize=size,
        markerfacecolor=fill,
        markeredgecolor="black",
        markeredgewidth=1.3,
        label=label,
        zorder=3,
    )
