"""Draws risk against coverage: how many of the surest answers are wrong, by lean's probability and by the raw one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from beliefrag.calibration.risk import RiskSample
from beliefrag.report.figure import DASHES, open_figure, save_figure
from beliefrag.runs.statistics import Floats
from benchmarks.decide.probability import ALL, Told
from benchmarks.find.mixed_corpus import SETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Counts = npt.NDArray[np.int64]

__all__ = ["RiskCoverageCurve", "draw_risk_curves", "risk_coverage"]

_COLUMNS = 4


@dataclass(frozen=True, slots=True, eq=False)
class RiskCoverageCurve:
    """Error among answered questions at each share of questions answered, from the strictest threshold on."""

    threshold: Floats
    coverage: Floats
    risk: Floats
    low: Floats
    """The interval is exact (Clopper and Pearson, 1934) at each place by itself, not for the whole curve at once."""
    high: Floats
    level: float
    aurc: float
    """Area under the curve (Geifman, Uziel and El-Yaniv, 2019): the error at a point's own threshold, on average."""


def risk_coverage(points: RiskSample, *, level: float = 0.95) -> RiskCoverageCurve:
    """Return the error among answers at each coverage: one place for each probability that occurs."""
    if not len(points.probability):
        raise ValueError("no question is answered at any threshold, so there is no curve")
    order = np.argsort(-points.probability, kind="stable")
    probability, wrongs = points.probability[order], np.cumsum(~points.correct[order])
    # Questions with the same probability are answered together or not at all.
    last = np.append(probability[1:] != probability[:-1], True)
    answered, wrong = np.flatnonzero(last) + 1, wrongs[last]
    risk = wrong / answered
    low, high = _clopper_pearson(wrong, answered, level)
    return RiskCoverageCurve(
        threshold=probability[last],
        coverage=answered / len(points),
        risk=risk,
        low=low,
        high=high,
        level=level,
        aurc=float(np.average(risk, weights=np.diff(answered, prepend=0))),
    )


def _clopper_pearson(wrong: Counts, answered: Counts, level: float) -> tuple[Floats, Floats]:
    outside = (1 - level) / 2
    # Where nothing, or everything, is wrong, the interval is closed by 0, or by 1.
    low = np.where(wrong > 0, betaincinv(np.maximum(wrong, 1), answered - wrong + 1, outside), 0.0)
    right = answered - wrong
    high = np.where(right > 0, betaincinv(wrong + 1, np.maximum(right, 1), 1 - outside), 1.0)
    return low, high


def draw_risk_curves(told: Mapping[str, Told], file: Path) -> None:
    """Draw a panel for all questions and one for each set, and save the figure."""
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
