"""The operating points that are tried: thresholds for answering, searching and rewriting, with and without corrections.

All other thresholds stay as the run had them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from beliefrag.calibration.policy_replay import has_corrections
from beliefrag.policy import Thresholds

__all__ = ["ANSWER", "NOVELTY", "RETRIEVAL_VALUE", "Combination", "ThresholdGrid", "set_corrections"]

ANSWER = tuple(step / 20 for step in range(1, 20))
RETRIEVAL_VALUE = (0.02, 0.05, 0.06, 0.1, 0.2, 0.3, 0.4, 0.5)
"""0.05, 0.06 and 0.1 let the paper's schedule search three times, twice and once."""
NOVELTY = (0.0, 0.1, 0.2, 0.4)

Combination = tuple[tuple[str, float | bool], ...]
"""Names of thresholds with a value each."""


@dataclass(frozen=True, slots=True)
class ThresholdGrid:
    """Which values to try. None tries the default values and those of the run; a tuple tries exactly these."""

    answer: tuple[float, ...] | None = None
    retrieval_value: tuple[float, ...] | None = None
    novelty: tuple[float, ...] | None = None
    corrections: tuple[bool, ...] | None = None

    def points(self, own: Thresholds) -> list[Thresholds]:
        """Gives every combination of the values, in a fixed order, each once.

        Args:
            own: The run's thresholds.
        """
        values = itertools.product(
            _values_to_try(self.answer, ANSWER, own.answer),
            _values_to_try(self.retrieval_value, RETRIEVAL_VALUE, own.retrieval_value),
            _values_to_try(self.novelty, NOVELTY, own.novelty),
            sorted(set((True, False) if self.corrections is None else self.corrections), reverse=True),
        )
        return [
            replace(set_corrections(own, on), answer=answer, retrieval_value=value, novelty=novelty)
            for answer, value, novelty, on in values
        ]

    def given_values(self, point: Thresholds) -> Combination:
        """Gives the values of a point that somebody gave; empty where all values are defaults."""
        named: dict[str, tuple[bool, float | bool]] = {
            "answer": (self.answer is not None, point.answer),
            "retrieval value": (self.retrieval_value is not None, point.retrieval_value),
            "novelty": (self.novelty is not None, point.novelty),
            "corrections": (self.corrections is not None, has_corrections(point)),
        }
        return tuple((name, value) for name, (given, value) in named.items() if given)


def set_corrections(own: Thresholds, on: bool) -> Thresholds:
    """Gives the thresholds with corrections on or off. On is what the run had on, or all three where it had none."""
    if on == has_corrections(own):
        return own
    return replace(own, correct_conflict=on, correct_unreliable=on, correct_flagged=on)


def _values_to_try(given: Iterable[float] | None, ours: Iterable[float], own: float) -> list[float]:
    return sorted({*ours, own} if given is None else set(given))
