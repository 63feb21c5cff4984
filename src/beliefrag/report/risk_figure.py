"""The risk-coverage curve as a picture: how many of the answers are wrong, as more questions are answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from beliefrag.calibration import Guarantee
from beliefrag.calibration.risk import RiskCoverageCurve
from beliefrag.report.figure import DASHES, MARKERS, open_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_risk_coverage"]

_DASHES = DASHES[1:]


def draw_risk_coverage(curve: RiskCoverageCurve, guarantees: Sequence[Guarantee], stem: Path) -> list[Path]:
    """Draws the curve with the targets and the thresholds chosen for them, and saves it as PNG and PDF.

    Shapes and dashes tell the targets apart, so that nothing is lost in black and white.

    Raises:
        OSError: They cannot be written.
    """
    figure = open_figure((7.0, 5.0))
    axes = figure.add_subplot()
    # A strict threshold answers few questions, and few answers tell little: the left end is wide for that reason.
    axes.fill_between(
        curve.coverage, curve.low, curve.high, color="0.85", linewidth=0, label=f"{curve.level:.0%} interval, pointwise"
    )
    axes.plot(curve.coverage, curve.risk, color="black", linewidth=1.4, label="wrong among the answers (held out)")
    for place, guarantee in enumerate(guarantees):
        _draw_target(axes, place, guarantee)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("share of questions answered  (further right: a lower threshold, fewer abstentions)")
    axes.set_ylabel("share of the answers that are wrong  (lower is better)")
    source = (
        f"{guarantees[0].questions:,} held-out questions of {', '.join(guarantees[0].datasets)}" if guarantees else ""
    )
    axes.set_title(f"What answering more questions costs in wrong answers\n{source}", fontsize=11)
    axes.grid(color="0.92")
    axes.legend(loc="upper right", fontsize=8, framealpha=1)
    return save_figure(figure, (stem.with_name(f"{stem.name}{ending}") for ending in (".png", ".pdf")))


def _draw_target(axes: Axes, place: int, guarantee: Guarantee) -> None:
    marker = MARKERS[place % len(MARKERS)]
    words = f"at most {100 * guarantee.max_error:g} % wrong, {100 * guarantee.confidence:g} % confidence"
    axes.axhline(guarantee.max_error, color="0.35", linewidth=0.9, linestyle=_DASHES[place % len(_DASHES)])
    if guarantee.threshold is None:
        axes.plot([], [], color="0.35", linestyle=_DASHES[place % len(_DASHES)], label=f"{words}: no threshold found")
        return
    observed = guarantee.wrong / guarantee.answered
    axes.plot(
        [guarantee.coverage],
        [observed],
        marker=marker,
        markersize=8,
        color="0.35",
        markerfacecolor="white",
        markeredgecolor="black",
        linestyle=_DASHES[place % len(_DASHES)],
        label=f"{words}: answer from {guarantee.threshold:.2f} on",
        clip_on=False,
        zorder=3,
    )
