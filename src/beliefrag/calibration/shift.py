"""Notice that a user's questions are unlike those that a guarantee was made from.

A guarantee holds for questions like its own. What is compared is how the diagnostics of the questions asked so far
spread, by the largest distance between the two distributions (Kolmogorov and Smirnov).
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from beliefrag.types import Diagnostics

WATCHED = ("support", "uncertainty", "gap")
"""Relevance is not watched: support is made from it."""
LEAST = 20
_MOST = 200
_PARTS = 20
_CRITICAL = 1.63
"""The distance times the root of n that one in a hundred samples of the same questions exceeds."""

Spread = Mapping[str, tuple[float, ...]]


def describe_spread(states: Sequence[Diagnostics]) -> Spread:
    """Return the quantiles of each watched diagnostic, from the least value to the largest."""
    spread = {}
    for name in WATCHED:
        values = sorted(getattr(each, name) for each in states)
        spread[name] = tuple(values[round(part * (len(values) - 1) / _PARTS)] for part in range(_PARTS + 1))
    return spread


def find_shift(spread: Spread, states: Sequence[Diagnostics]) -> str | None:
    """Return the diagnostic in which the states differ most from the spread; None where none differs clearly."""
    if len(states) < LEAST:
        return None
    distances = {
        name: _distance(quantiles, sorted(getattr(each, name) for each in states)) for name, quantiles in spread.items()
    }
    name = max(distances, key=lambda each: distances[each], default="")
    return name if name and distances[name] > _CRITICAL / math.sqrt(len(states)) else None


def _distance(quantiles: Sequence[float], values: Sequence[float]) -> float:
    """Return how far the share of values below a quantile is from its own, at most; equal quantiles count once."""
    last = {value: part / (len(quantiles) - 1) for part, value in enumerate(quantiles)}
    return max(abs(bisect_right(values, value) / len(values) - share) for value, share in last.items())


class ShiftWatch:
    """The diagnostics of the questions asked about some documents, kept in a file between processes."""

    def __init__(self, spread: Spread, path: Path) -> None:
        self._spread, self._path = spread, path

    def add(self, state: Diagnostics) -> str | None:
        """Count one more question, and return the diagnostic in which the questions differ, if any does."""
        rows: list[list[float]] = []
        with suppress(OSError, ValueError):
            rows = json.loads(self._path.read_text(encoding="utf-8"))
        states = [*_read_states(rows), state][-_MOST:]
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps([each.vector() for each in states]), encoding="utf-8")
        return find_shift(self._spread, states)


def _read_states(rows: Iterable[Sequence[float]]) -> list[Diagnostics]:
    with suppress(TypeError, ValueError):
        return [Diagnostics(*map(float, row)) for row in rows]
    return []
