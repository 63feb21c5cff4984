"""Row recall against rows read, and recall per row read, as a picture in two panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from beliefrag.methods import METHODS
from beliefrag.report.figure import HATCHES, MARKERS, draw_interval, label_points
from beliefrag.runs.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_rows"]


def draw_rows(
    points: Sequence[tuple[str, Estimate, Estimate, Estimate | None]], ceiling: Estimate, most: int, figure: Figure
) -> None:
    """Draws both panels from method, rows read, row recall and recall per row read."""
    found, each = figure.subplots(1, 2, width_ratios=(1.4, 1))
    for axes in (found, each):
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    _found(found, points, ceiling, most)
    _each(each, points)
    figure.draw_without_rendering()
    label_points(found, [(read.value, recall.value, METHODS.title(m)) for m, read, recall, _ in points])


def _found(
    axes: Axes, points: Sequence[tuple[str, Estimate, Estimate, Estimate | None]], ceiling: Estimate, most: int
) -> None:
    for place, (_, read, recall, _) in enumerate(points):
        draw_interval(axes, recall, read.value, "0.65")
        if read.low is not None and read.high is not None:
            axes.plot([read.low, read.high], [recall.value, recall.value], color="0.65", linewidth=1.2, zorder=1.8)
        filled = "black" if place == len(points) - 1 else "white"
        axes.plot([read.value], [recall.value], MARKERS[place], ms=9, mfc=filled, mec="black", zorder=3)
    axes.axhline(ceiling.value, color="black", linestyle=":", linewidth=1.2)
    tops = [number.high or number.value for _, _, number, _ in points]
    right = 1.15 * max(most, *(read.high or read.value for _, read, _, _ in points))
    words = f"most that {most} rows can give"
    axes.annotate(words, (right, ceiling.value), (-4, 4), textcoords="offset points", ha="right", fontsize=9)
    axes.set_xlim(0, right)
    axes.set_ylim(0, 1.15 * max(ceiling.value, *tops))
    axes.set_title("Rows found by rows read", fontsize=11)
    axes.set_xlabel("mean rows read per question (fewer is cheaper)")
    axes.set_ylabel("row recall: share of needed rows found")


def _each(axes: Axes, points: Sequence[tuple[str, Estimate, Estimate, Estimate | None]]) -> None:
    for place, (_, _, _, number) in enumerate(points):
        if number is None:
            continue
        axes.bar(place, number.value, 0.6, color="0.88", edgecolor="black", hatch=HATCHES[place])
        draw_interval(axes, number, place, "black")
        axes.annotate(
            f"{number.value:.1f}", (place, number.value), (-4, 3), textcoords="offset points", ha="right", fontsize=9
        )
    axes.set_xticks(range(len(points)), [METHODS.title(method) for method, _, _, _ in points])
    axes.set_xlim(-0.6, len(points) - 0.4)
    axes.set_title("Found for each row read", fontsize=11)
    axes.set_ylabel("row recall per row read (times 1,000)")
