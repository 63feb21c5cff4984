"""Scales, operating points and gates as a picture in three panels; nothing in it needs colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beliefrag.report.figure import MARKERS, shorten
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.thresholds.gate_rates import Reached
from beliefrag.studies.thresholds.gates import GATES
from beliefrag.studies.thresholds.scales import Placed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_thresholds"]

Scales = Mapping[str | None, Placed]

_APART = 0.17
_RAW: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black", "color": "0.45"}
_CALIBRATED: dict[str, Any] = {"marker": "s", "markerfacecolor": "0.55", "markeredgecolor": "black", "color": "0.45"}


def draw_thresholds(
    datasets: Sequence[str],
    scales: tuple[Scales, Scales],
    threshold: float,
    gates: Sequence[Reached],
    figure: Figure,
) -> None:
    """Draws the three panels; the scales are the raw and the calibrated one."""
    raw, calibrated = scales
    scale, cut, fired = figure.subplots(1, 3, width_ratios=(1, 1, 1.15))
    names = [shorten(name, 18) for name in datasets]
    for axes in (scale, cut):
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(-0.03, 1.03)
        axes.grid(axis="x", color="0.92")
        axes.set_axisbelow(True)
    for place, name in enumerate(datasets):
        _box(scale, place - _APART, raw[name].middle_half, filled=False)
        _box(scale, place + _APART, calibrated[name].middle_half, filled=True)
        _dot(cut, place - _APART, raw[name].below, filled=False)
        _dot(cut, place + _APART, calibrated[name].below, filled=True)
    scale.axvline(threshold, color="black", linestyle=":", linewidth=1.2)
    scale.set_title("Where the score lies", fontsize=11)
    scale.set_xlabel(f"score at visited states (dots: answer from {threshold:g} on)\nbox: middle half; line: median")
    cut.set_title("Where the threshold cuts", fontsize=11)
    cut.set_xlabel("share of visited states below the answer threshold\n(bars: 95 % intervals)")
    cut.plot([], [], linestyle="", label="raw: sufficiency of the belief", **_RAW)
    cut.plot([], [], linestyle="", label="calibrated answerability", **_CALIBRATED)
    cut.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8, frameon=False, ncols=1)
    _gates(fired, datasets, gates)


def _box(axes: Axes, y: float, middle_half: tuple[float, float, float], *, filled: bool) -> None:
    low, middle, high = middle_half
    axes.barh(y, high - low, left=low, height=0.26, color="0.55" if filled else "white", edgecolor="black")
    axes.plot([middle, middle], [y - 0.13, y + 0.13], color="black", linewidth=2.4)


def _dot(axes: Axes, y: float, number: Estimate, *, filled: bool) -> None:
    if number.low is not None and number.high is not None:
        axes.plot([number.low, number.high], [y, y], color="0.45", linewidth=1.4)
    axes.plot([number.value], [y], linestyle="", markersize=7, **(_CALIBRATED if filled else _RAW))


def _gates(axes: Axes, datasets: Sequence[str], gates: Sequence[Reached]) -> None:
    rows = {name: place for place, name in enumerate(GATES)}
    for each in gates:
        y = rows[each.gate.name]
        if each.dataset is None:
            axes.barh(y, each.share.value, height=0.62, color="0.85", edgecolor="0.4")
            if each.share.low is not None and each.share.high is not None:
                axes.plot([each.share.low, each.share.high], [y, y], color="black", linewidth=1.4)
            words = "never" if each.never else f"{each.share.value:.0%}"
            axes.text(1.04, y, words, va="center", fontsize=9)
    several = [name for name in datasets if len(datasets) > 1]
    for place, name in enumerate(several):
        own = [each for each in gates if each.dataset == name]
        axes.plot(
            [each.share.value for each in own],
            [rows[each.gate.name] + 0.2 * (place - (len(several) - 1) / 2) for each in own],
            MARKERS[place % len(MARKERS)],
            markersize=5,
            markerfacecolor="white",
            markeredgecolor="black",
            label=shorten(name, 18),
        )
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 1.24)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_title("Which gates' conditions hold", fontsize=11)
    axes.set_xlabel("share of visited states where it holds\n(bar: all datasets; line: 95 % interval)")
    axes.grid(axis="x", color="0.92")
    axes.set_axisbelow(True)
    if several:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8, frameon=False, ncols=2)
