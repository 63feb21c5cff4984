"""Draws risk against coverage: how many of the surest answers are wrong, by lean's probability and by the raw one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beliefrag.calibration.risk import RiskSample, risk_coverage
from beliefrag.report.figure import DASHES, open_figure, save_figure
from beliefrag.runs.statistics import Floats
from benchmarks.decide.probability import ALL, Told
from benchmarks.find.mixed_corpus import SETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_risk_curves"]

_COLUMNS = 4


def draw_risk_curves(told: Mapping[str, Told], file: Path) -> None:
    """Draws a panel for all questions and one for each set, and saves the figure."""
    names = [name for name in (ALL, *SETS) if name in told]
    figure = open_figure((13.0, 6.4))
    rows = -(-(len(names) + 1) // _COLUMNS)
    for place, name in enumerate(names):
        axes = figure.add_subplot(rows, _COLUMNS, place + 1)
        each = told[name]
        _draw_curve(axes, each.lean, each.right, "lean's answerability", with_interval=True)
        _draw_curve(axes, each.raw, each.right, "raw token probability", dashes=DASHES[1])
        wrong = 1.0 - float(each.right.mean())
        axes.axhline(wrong, color="0.5", linewidth=0.8, linestyle=":", label="wrong of all: no order at all")
        axes.set_title(f"{name} (n {len(each.right)})", fontsize=10)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.grid(color="0.92")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    legend = figure.add_subplot(rows, _COLUMNS, len(names) + 1)
    legend.set_axis_off()
    legend.legend(handles, labels, loc="center", fontsize=9, frameon=False)
    figure.supxlabel("share of questions answered, the surest first", fontsize=10)
    figure.supylabel("share of the answers that are wrong (lower is better)", fontsize=10)
    save_figure(figure, [file])


def _draw_curve(
    axes: Axes, p: Floats, right: Floats, label: str, *, with_interval: bool = False, dashes: Any = "-"
) -> None:
    curve = risk_coverage(RiskSample(np.clip(p, 0.0, 1.0), right > 0))
    if with_interval:
        label_of_band = "95 % interval of lean's, pointwise"
        axes.fill_between(curve.coverage, curve.low, curve.high, color="0.87", linewidth=0, label=label_of_band)
    axes.plot(curve.coverage, curve.risk, color="black", linewidth=1.3, linestyle=dashes, label=label)
