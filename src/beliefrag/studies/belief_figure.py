"""The figure of the belief study: four panels, in which shapes, dashes and hatches do without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beliefrag.report.figure import DASHES, HATCHES, MARKERS, draw_interval
from beliefrag.studies.belief_measures import DIMENSIONS, BeliefMeasures
from beliefrag.types import Action

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

__all__ = ["draw_belief"]

_SHADES = ("white", "0.85", "0.65", "0.45", "0.25", "0.95")


def draw_belief(found: BeliefMeasures, figure: Figure) -> None:
    """Draws the four panels."""
    panels = figure.subplots(2, 2)
    _draw_signals(panels[0, 0], found)
    _draw_correlations(panels[0, 1], found)
    _draw_calibration(panels[1, 0], found)
    _draw_actions(panels[1, 1], found)


def _draw_signals(axes: Axes, found: BeliefMeasures) -> None:
    ordered = sorted(found.signals.items(), key=lambda item: item[1].value)
    for place, (name, estimate) in enumerate(ordered):
        draw_interval(axes, estimate, place, "0.4", upright=False, linewidth=1.6, zorder=2)
        single = name in DIMENSIONS
        axes.plot(
            [estimate.value],
            [place],
            "o" if single else "D",
            markersize=8,
            markeredgecolor="black",
            markerfacecolor="white" if single else "black",
        )
        axes.text(1.03, place, f"{estimate.value:.2f}", va="center", fontsize=9)
    for place, (name, _) in enumerate(ordered):
        if each := found.permutations.get(name):
            axes.plot([each.mean], [place], "|", markersize=13, markeredgewidth=2, color="0.55")
    axes.axvline(0.5, color="black", linestyle=":", linewidth=1.2)
    axes.set_yticks(range(len(ordered)), [name for name, _ in ordered])
    axes.set_xlim(0.2, 1.14)
    axes.set_xticks([0.2, 0.4, 0.5, 0.6, 0.8, 1.0])
    axes.set_xlabel(
        "AUC: chance that a right state scores better than a wrong one\n"
        "(0.5: no signal; line: 95 % interval;\n"
        "grey tick: exchanged among matched states, on those alone)"
    )
    axes.set_title("How well each signal tells right from wrong", fontsize=11)
    axes.grid(axis="x", color="0.92")
    axes.set_axisbelow(True)


def _draw_correlations(axes: Axes, found: BeliefMeasures) -> None:
    names = list(DIMENSIONS)
    for row, one in enumerate(names):
        for column, other in enumerate(names[:row]):
            estimate = found.correlations[other, one]
            strength = 0.0 if estimate is None else abs(estimate.value)
            axes.add_patch(_make_square(column, row, str(1 - 0.75 * strength)))
            words = "–" if estimate is None else f"{estimate.value:+.2f}"
            axes.text(column, row, words, ha="center", va="center", color="white" if strength > 0.6 else "black")
    axes.set_xlim(-0.5, len(names) - 1.5)
    axes.set_ylim(len(names) - 0.5, 0.5)
    axes.set_xticks(range(len(names) - 1), names[:-1], rotation=20)
    axes.set_yticks(range(1, len(names)), names[1:])
    axes.set_title("How the dimensions hang together", fontsize=11)
    axes.set_xlabel("rank correlation over states (darker: stronger, of either sign)")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _make_square(column: int, row: int, shade: str) -> Rectangle:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 (slow to load)

    return Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=shade, edgecolor="white")


def _draw_calibration(axes: Axes, found: BeliefMeasures) -> None:
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="perfectly calibrated")
    for place, (name, each) in enumerate(found.calibration.items()):
        axes.plot(
            [b.predicted for b in each.curve],
            [b.observed for b in each.curve],
            marker=MARKERS[place],
            linestyle=DASHES[place],
            color="black",
            markerfacecolor="white" if place % 2 else "black",
            label=f"{name}: ECE {each.ece:.3f}",
        )
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("mean score in a bin of one tenth")
    axes.set_ylabel("share of right answers in that bin")
    axes.set_title("How near scores lie to the share of right answers", fontsize=11)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.legend(loc="upper left", fontsize=8, framealpha=1)


def _draw_actions(axes: Axes, found: BeliefMeasures) -> None:
    present = [action for action in Action if any(level.actions.get(action) for level in found.levels)]
    ticks, words = [], []
    for place, level in enumerate(found.levels):
        y = place + 0.7 * (place // 3)
        left = 0.0
        for number, action in enumerate(present):
            share = level.share(action)
            axes.barh(
                y,
                share,
                left=left,
                height=0.85,
                color=_SHADES[number % len(_SHADES)],
                hatch=HATCHES[number % len(HATCHES)],
                edgecolor="black",
                linewidth=0.6,
                label=action.value if place == 0 else None,
            )
            left += share
        ticks.append(y)
        words.append(f"{level.dimension}: {level.name}" if place % 3 == 0 else level.name)
    axes.set_yticks(ticks, words, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of visited states, by what was done next\n(levels: thirds of the visited states)")
    axes.set_title("What was done at each level of the belief", fontsize=11)
    if found.levels:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=8, frameon=False, ncols=len(present))
