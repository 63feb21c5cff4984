"""What the figures of studies share: shapes that can be told apart in black and white, and names beside points."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beliefrag.runs.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

__all__ = ["DASHES", "HATCHES", "MARKERS", "label_points", "plain", "upright_interval"]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")

_OFFSETS = ((9, 5), (9, -13), (-9, 5), (-9, -13), (0, 12), (0, -20), (9, 17), (9, -25), (-9, 17), (-9, -25))
"""Where a name may stand, in points from its mark, the best place first."""


def plain(text: str, width: int = 40) -> str:
    """Somebody's name, short enough and never read as a formula."""
    return textwrap.shorten(text, width, placeholder=" …").replace("$", r"\$")


def upright_interval(axes: Axes, x: float, number: Estimate, colour: str) -> None:
    """Draws a number's interval as an upright line, behind the marks unless it is black."""
    if number.low is not None and number.high is not None:
        axes.plot(
            [x, x], [number.low, number.high], color=colour, linewidth=1.3, zorder=1.8 if colour != "black" else 3
        )


def label_points(axes: Axes, points: Sequence[tuple[float, float, str]]) -> None:
    """Writes a name beside each point, where it covers neither another name nor another mark.

    The figure's layout must be settled, see `Figure.draw_without_rendering`.
    """
    marks = [axes.transData.transform((x, y)) for x, y, _ in points]
    taken: list[Bbox] = []
    for place, (x, y, words) in enumerate(points):
        others = [mark for other, mark in enumerate(marks) if other != place]
        for right, up in _OFFSETS:
            side = "left" if right > 0 else "right" if right < 0 else "center"
            text = axes.annotate(words, (x, y), (right, up), textcoords="offset points", fontsize=9, ha=side, zorder=4)
            # Lines may pass below a name, and not through it.
            text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85})
            box = text.get_window_extent()
            inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 and axes.bbox.y0 <= box.y0
            clear = not any(box.overlaps(other) for other in taken)
            clear = clear and not any(box.padded(4).contains(mark[0], mark[1]) for mark in others)
            if (inside and clear) or (right, up) == _OFFSETS[-1]:
                taken.append(box)
                break
            text.remove()
