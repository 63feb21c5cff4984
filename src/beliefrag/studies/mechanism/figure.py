"""Ablations and interventions as bars; hatches tell variants apart, so that black and white will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from beliefrag.report.figure import HATCHES
from beliefrag.runs.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_mechanism"]

_TITLES = {
    "ablations": ("Parts of the correction left out", "accuracy: share of right answers"),
    "interventions": ("Answerability exchanged: accuracy", "accuracy: share of right answers"),
    "rounds": ("Answerability exchanged: searches", "mean searches per question"),
}


def draw_mechanism(panels: Mapping[str, Sequence[tuple[str, Estimate, float]]], figure: Figure) -> None:
    """One panel each: variant, our number with its interval, and the paper's value."""
    axes = figure.subplots(1, len(panels), width_ratios=[len(bars) for bars in panels.values()])
    for each, (name, bars) in zip(axes, panels.items(), strict=True):
        _panel(each, bars)
        title, unit = _TITLES[name]
        each.set_title(title, fontsize=10.5)
        each.set_ylabel(unit)
        if name != "rounds":
            each.set_ylim(0, 1)
    theirs = axes[0].plot([], [], "D", markerfacecolor="white", markeredgecolor="black", label="the paper's value")
    figure.legend(handles=theirs, loc="outside lower center", frameon=False, fontsize=9)


def _panel(axes: Axes, bars: Sequence[tuple[str, Estimate, float]]) -> None:
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    for place, (_, number, theirs) in enumerate(bars):
        axes.bar(place, number.value, 0.62, color="0.85", edgecolor="black", hatch=HATCHES[place % len(HATCHES)])
        if number.low is not None and number.high is not None:
            axes.plot([place, place], [number.low, number.high], color="black", linewidth=1.6)
        axes.plot([place + 0.42], [theirs], "D", markerfacecolor="white", markeredgecolor="black", markersize=6)
        axes.annotate(
            f"{number.value:.2f}",
            (place, number.value),
            (-4, 3),
            textcoords="offset points",
            fontsize=9,
            ha="right",
        )
    axes.set_xticks(range(len(bars)), [name.replace(" ", "\n") for name, _, _ in bars])
    axes.set_xlim(-0.6, len(bars) - 0.3)
