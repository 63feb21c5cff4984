"""Chooses an operating point: the frontier of quality against tokens, and the point on it that meets a goal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from beliefrag.calibration.tuning.sweep import Point
from beliefrag.policy import Thresholds
from beliefrag.runs.statistics import pareto_front

__all__ = ["Goal", "choose", "frontier"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a point is chosen for: just one of the two is given."""

    max_tokens: float | None = None
    """The greatest quality at no more mean tokens than this."""
    min_quality: float | None = None
    """The fewest tokens at a mean quality of no less than this."""

    def __post_init__(self) -> None:
        if (self.max_tokens is None) == (self.min_quality is None):
            raise ValueError("a goal is a token budget or a floor of quality, one of the two")


def frontier(points: Iterable[Point], own: Thresholds) -> list[Point]:
    """The points that no other one beats in quality without costing more, from the cheapest to the best.

    Of points that give the same the one nearest to the run's own thresholds stands for all.
    """
    nearest: dict[tuple[float, float], Point] = {}
    for point in sorted(points, key=lambda p: (p.tokens, p.quality, _distance(p, own))):
        nearest.setdefault((point.tokens, point.quality), point)
    if not nearest:
        return []
    tokens, quality = np.array(list(nearest)).T
    return [point for point, kept in zip(nearest.values(), pareto_front(tokens, quality), strict=True) if kept]


def choose(front: Sequence[Point], goal: Goal) -> Point | None:
    """The point of a frontier that meets the goal best; None where none meets it."""
    if goal.max_tokens is not None:
        affordable = [point for point in front if point.tokens <= goal.max_tokens]
        return affordable[-1] if affordable else None
    floor = goal.min_quality or 0.0
    return next((point for point in front if point.quality >= floor), None)


def _distance(point: Point, own: Thresholds) -> tuple[int, float, tuple[float, ...]]:
    """How far a point lies from the run's own: switches count before numbers, and the last part breaks ties."""
    here, there = astuple(point.thresholds), astuple(own)
    pairs = list(zip(here, there, strict=True))
    switches = sum(a is not b for a, b in pairs if isinstance(a, bool))
    numbers = [(a or 0.0, b or 0.0) for a, b in pairs if not isinstance(a, bool)]
    return switches, sum(abs(a - b) for a, b in numbers), tuple(a for a, _ in numbers)
