"""F1 against tokens as an SVG picture: further up is better, further left is cheaper."""

from __future__ import annotations

import math
from html import escape

from beliefrag.methods import METHODS
from beliefrag.runs.cells import MEAN, Cell
from beliefrag.runs.summary import Summary

__all__ = ["f1_against_tokens"]

_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 150, 20, 50


def f1_against_tokens(summary: Summary) -> str:
    """One point per method with its interval, on the mean over datasets (or the only one).

    Both numbers of a point are over the same questions: where a dataset has no F1, its tokens do not count here.
    An empty text where there is no F1.
    """
    shown = [
        (cell.method, quality, cost.value)
        for cell in _cells(summary)
        if (quality := cell.measures["f1"]) is not None and (cost := cell.tokens_beside_f1) is not None
    ]
    if not shown:
        return ""
    most = _round_up(max(tokens for _, _, tokens in shown))
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    parts = [f'<svg {size} role="img" aria-label="F1 against tokens" font-family="sans-serif" font-size="12">']
    for step in range(6):
        value = step / 5
        parts.append(_grid(_LEFT, _y(value), _WIDTH - _RIGHT, _y(value)))
        parts.append(_text(_LEFT - 8, _y(value) + 4, f"{value:.1f}", "end"))
        parts.append(_text(_x(most * value, most), _HEIGHT - _BOTTOM + 18, f"{most * value:,.0f}", "middle"))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "mean tokens per question", "middle"))
    parts.append(_text(_LEFT - 8, _TOP - 6, "F1", "end"))
    for method, f1, tokens in shown:
        x, y = _x(tokens, most), _y(f1.value)
        colour = "#b3261e" if method == "beliefrag" else "#35507a"
        if f1.low is not None and f1.high is not None:
            parts.append(
                f'<line x1="{x:.1f}" y1="{_y(f1.low):.1f}" x2="{x:.1f}" y2="{_y(f1.high):.1f}" '
                f'stroke="{colour}" stroke-opacity="0.45"/>'
            )
        title = f"{METHODS.title(method)}: F1 {f1.value:.3f}, {tokens:,.0f} tokens"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{escape(title)}</title></circle>')
        parts.append(_text(x + 7, y + 4, METHODS.title(method), "start"))
    return "\n".join([*parts, "</svg>"])


def _cells(summary: Summary) -> list[Cell]:
    means = [cell for cell in summary.cells if cell.dataset == MEAN]
    return means or list(summary.cells)


def _round_up(value: float) -> float:
    step = 10.0 ** math.floor(math.log10(max(value, 1.0)))
    return math.ceil(max(value, 1.0) / step) * step


def _x(tokens: float, most: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * tokens / most


def _y(f1: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * f1


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#333">{escape(words)}</text>'
