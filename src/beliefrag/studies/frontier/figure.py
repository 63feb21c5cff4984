"""The frontier as a picture: shapes tell methods apart and names stand beside them, so that black and white will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beliefrag.methods import METHODS
from beliefrag.runs.cells import MEAN
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.drawing import MARKERS, label_points, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Point", "draw_frontier"]

_MARKER = {method: MARKERS[place % len(MARKERS)] for place, method in enumerate(METHODS)}


@dataclass(frozen=True, slots=True)
class Point:
    """One method on one dataset, or on the mean over all."""

    method: str
    tokens: Estimate
    f1: Estimate
    front: bool


def draw_frontier(points: Mapping[str, Sequence[Point]], figure: Figure) -> None:
    """One panel for the mean and one for each dataset."""
    columns = min(2, len(points))
    rows = -(-len(points) // columns)
    panels = [figure.add_subplot(rows, columns, place + 1) for place in range(len(points))]
    for axes, (name, each) in zip(panels, points.items(), strict=True):
        _panel(axes, each)
        axes.set_title(f"mean over {len(points) - 1} datasets" if name == MEAN else plain(name), fontsize=11)
    _legend(panels[0])
    figure.supxlabel("cost: mean tokens per question, read and written by the model (fewer is better)", fontsize=10)
    figure.supylabel("answer quality: mean F1 (0 to 1, higher is better)", fontsize=10)
    figure.draw_without_rendering()
    for axes, each in zip(panels, points.values(), strict=True):
        label_points(axes, [(p.tokens.value, p.f1.value, METHODS.title(p.method)) for p in each])


def _legend(axes: Axes) -> None:
    style: dict[str, Any] = {"linestyle": "", "markeredgecolor": "black", "markersize": 8}
    axes.plot([], [], "o", markerfacecolor="black", label="on the Pareto front (step line)", **style)
    axes.plot([], [], "o", markerfacecolor="white", label="beaten: another is as good for less", **style)
    axes.plot([], [], color="0.7", label="95 % interval")
    axes.legend(loc="lower right", fontsize=8, framealpha=1)


def _panel(axes: Axes, points: Sequence[Point]) -> None:
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    for point in points:
        x, y = point.tokens, point.f1
        if y.low is not None and y.high is not None:
            axes.plot([x.value, x.value], [y.low, y.high], color="0.7", linewidth=1.0, zorder=1.5)
        if x.low is not None and x.high is not None:
            axes.plot([x.low, x.high], [y.value, y.value], color="0.7", linewidth=1.0, zorder=1.5)
    front = sorted((p for p in points if p.front), key=lambda p: p.tokens.value)
    # A step, not a slope: between two methods nothing is better than the cheaper one of them.
    axes.step(
        [p.tokens.value for p in front], [p.f1.value for p in front], where="post", color="0.3", linewidth=1.2, zorder=2
    )
    for point in points:
        axes.plot(
            [point.tokens.value],
            [point.f1.value],
            _MARKER[point.method],
            markersize=12 if _MARKER[point.method] == "*" else 9,
            markerfacecolor="black" if point.front else "white",
            markeredgecolor="black",
            zorder=3,
        )
    top = max(p.f1.value if p.f1.high is None else p.f1.high for p in points)
    right = max(p.tokens.value if p.tokens.high is None else p.tokens.high for p in points)
    axes.set_xlim(-0.04 * right, 1.12 * right)
    axes.set_ylim(-0.03, min(1.04, max(0.25, 1.12 * top)))
