"""The figure of the robustness study: three panels, in which markers, dashes and hatches tell methods apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from beliefrag.methods import METHODS
from beliefrag.report.figure import DASHES, HATCHES, MARKERS, draw_interval
from beliefrag.runs.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_robustness"]

_RATE_NAMES = {
    "follows_false": "false answer\nfollowed",
    "recovers_true": "true answer\nrecovered",
    "abstained": "abstained",
}


def draw_robustness(
    curves: Mapping[str, Sequence[tuple[float, Estimate]]],
    rates: Mapping[str, Mapping[str, Estimate | None]],
    areas: Mapping[str, Estimate | None],
    figure: Figure,
) -> None:
    """Draws the three panels."""
    noise, false, source = figure.subplots(1, 3, width_ratios=(1.15, 1.25, 0.8))
    for axes in (noise, false, source):
        axes.grid(axis="y", color="0.92")
        axes.set_axisbelow(True)
    _draw_noise(noise, curves)
    _draw_false_evidence(false, rates)
    _draw_sources(source, areas)


def _draw_noise(axes: Axes, curves: Mapping[str, Sequence[tuple[float, Estimate]]]) -> None:
    for place, (method, points) in enumerate(curves.items()):
        # Side by side, so that intervals do not lie on each other.
        xs = [100 * level + 1.2 * (place - (len(curves) - 1) / 2) for level, _ in points]
        for x, (_, estimate) in zip(xs, points, strict=True):
            draw_interval(axes, estimate, x, "0.65")
        axes.plot(
            xs,
            [estimate.value for _, estimate in points],
            MARKERS[place],
            linestyle=DASHES[place % len(DASHES)],
            color="black",
            markerfacecolor="black" if place == len(curves) - 1 else "white",
            label=METHODS.title(method),
        )
    axes.set_title("Irrelevant passages", fontsize=11)
    axes.set_xlabel("share of what searches found that was replaced (%)")
    axes.set_ylabel("mean F1 (0 to 1, higher is better)")
    axes.set_ylim(-0.03, 1.03)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, ncols=2, handlelength=3)


def _draw_false_evidence(axes: Axes, rates: Mapping[str, Mapping[str, Estimate | None]]) -> None:
    width = 0.8 / len(rates)
    for place, (method, own) in enumerate(rates.items()):
        for group, name in enumerate(_RATE_NAMES):
            estimate = own[name]
            if estimate is None:
                continue
            x = group + width * (place - (len(rates) - 1) / 2)
            axes.bar(x, estimate.value, 0.9 * width, color="0.88", edgecolor="black", hatch=HATCHES[place])
            draw_interval(axes, estimate, x, "black")
            if estimate.value == 0:
                axes.annotate("0", (x, 0), (0, 2), textcoords="offset points", ha="center", fontsize=8)
        axes.bar([0], [0], 0, color="0.88", edgecolor="black", hatch=HATCHES[place], label=METHODS.title(method))
    axes.set_xticks(range(len(_RATE_NAMES)), list(_RATE_NAMES.values()))
    axes.set_title("False passages", fontsize=11)
    axes.set_ylabel("share of questions")
    axes.set_ylim(0, 1.03)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, ncols=2)


def _draw_sources(axes: Axes, areas: Mapping[str, Estimate | None]) -> None:
    for place, estimate in enumerate(areas.values()):
        if estimate is None:
            axes.annotate("too few\nquestions", (place, 0.25), ha="center", va="center", fontsize=9)
            continue
        axes.bar(place, estimate.value, 0.6, color="0.88", edgecolor="black", hatch=HATCHES[place])
        draw_interval(axes, estimate, place, "black")
        axes.annotate(
            f"{estimate.value:.2f}", (place, 0.03), ha="center", fontsize=9, bbox={"fc": "white", "ec": "none"}
        )
    axes.axhline(0.5, color="black", linestyle=":", linewidth=1.2)
    axes.annotate("chance", (len(areas) - 0.45, 0.5), (0, 3), textcoords="offset points", ha="right", fontsize=8)
    axes.set_xticks(range(len(areas)), [name.replace(" ", "\n") for name in areas], fontsize=9)
    axes.set_xlim(-0.5, len(areas) - 0.4)
    axes.set_title("The calibrator by source", fontsize=11)
    axes.set_ylabel("AUC: right answers ranked before wrong ones")
    axes.set_ylim(0, 1)
