"""What was done next at low, middle and high levels of each belief dimension."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from beliefrag.studies.belief.signals import Dimension
from beliefrag.studies.states import StateTable
from beliefrag.types import Action

__all__ = ["LEVELS", "Level", "levels"]

LEVELS = ("low", "middle", "high")


@dataclass(frozen=True, slots=True)
class Level:
    """A third of the visited states, by one dimension."""

    dimension: str
    name: str
    low: float
    high: float
    """The lowest and highest value among its states."""
    states: int
    actions: Mapping[Action, int]

    def share(self, action: Action) -> float:
        """Of its states, those at which this was done next."""
        return self.actions.get(action, 0) / self.states


def levels(visited: StateTable, dimension: Dimension) -> tuple[Level, ...] | None:
    """The three levels; None where the dimension varies too little for three.

    The cuts lie at one and two thirds of the visited states. States with the same value are never parted, so that the
    thirds can differ in size.
    """
    values = visited.column(dimension.value)
    cuts = np.quantile(values, [1 / 3, 2 / 3])
    place = np.searchsorted(cuts, values, side="left")
    if len(set(place.tolist())) < len(LEVELS):
        return None
    return tuple(
        Level(
            dimension=dimension.name,
            name=name,
            low=float(values[place == number].min()),
            high=float(values[place == number].max()),
            states=int((place == number).sum()),
            actions=Counter(s.action for s, own in zip(visited.states, place == number, strict=True) if own),
        )
        for number, name in enumerate(LEVELS)
    )
