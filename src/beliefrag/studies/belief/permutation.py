"""Does a score tell right from wrong beyond what dataset and round tell? Scores are exchanged between matched states.

A question takes part with its first state of each round. It is exchanged as a whole: it gets the scores of another
question of the same dataset that reached the same rounds, round by round. So states are matched on dataset and round,
and the states of one question, which are not independent, stay together: exchanging them one by one would call chance
a signal (Winkler et al., NeuroImage 2015, on exchangeability blocks).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beliefrag.calibration.examples import Example, Examples
from beliefrag.calibration.quality import Floats, auc
from beliefrag.runs.statistics import random_generator

__all__ = ["Matched", "Permuted", "matched", "permuted"]

PERMUTATIONS = 2_000
_SEED = 0
_ENOUGH = 0.8
"""The finer match is taken if so many of the questions still have a partner."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Matched:
    """States that can be exchanged, in blocks of one question."""

    examples: Examples
    places: Integers
    """Where each of them is among the examples that they were taken from."""
    groups: tuple[Integers, ...]
    """For each set of questions that can be exchanged: a row per question, with the places of its states."""
    on_retained: bool
    """Whether they are matched on the number of retained passages too."""
    questions: int
    with_partner: int
    """Of the questions, those that have another one to be exchanged with."""


@dataclass(frozen=True, slots=True)
class Permuted:
    """A number as it is, and as it is with scores exchanged between matched states."""

    observed: float
    mean: float
    """Over permutations: what dataset and round alone give."""
    low: float
    high: float
    """Between them lie 95 % of the permutations."""
    p: float
    """The chance of so large a number, or a larger one, if the score told nothing beyond the match."""

    def record(self) -> dict[str, float]:
        """As plain values."""
        return {
            "observed": self.observed,
            "permuted": self.mean,
            "permuted_low": self.low,
            "permuted_high": self.high,
            "p": self.p,
        }


def matched(examples: Examples) -> Matched:
    """Matches states on dataset and round, and on the number of retained passages where most still find a partner."""
    first: dict[tuple[str, int], tuple[int, Example]] = {}
    for place, example in enumerate(examples.each):
        first.setdefault((example.question, example.state.rounds), (place, example))
    kept = sorted(first.values(), key=lambda found: found[0])
    chosen = Examples(example for _, example in kept)
    # Examples are sorted by question and step, and so are the first ones among them.
    places = np.array([place for place, _ in kept], dtype=np.int64)
    rows: dict[str, list[int]] = defaultdict(list)
    for place, example in enumerate(chosen.each):
        rows[example.question].append(place)
    fine, coarse = (_groups(chosen, rows, retained=retained) for retained in (True, False))
    on_retained = _partnered(fine) >= _ENOUGH * _partnered(coarse) and _partnered(fine) > 0
    groups = fine if on_retained else coarse
    return Matched(chosen, places, groups, on_retained, len(rows), _partnered(groups))


def permuted(
    scores: Floats, found: Matched, *, gate: float | None = None, permutations: int = PERMUTATIONS, seed: int = _SEED
) -> Permuted | None:
    """The AUC of a score, or how often a gate on it would be right, against permutations of the score.

    Args:
        scores: One for each example that was matched from.
        found: The match.
        gate: A threshold on the score: the number is then the share of right states among those from it on.
        permutations: How many.
        seed: Of the permutations.

    Returns:
        None where the number has no value: outcomes all alike, nothing passes the gate, or nobody has a partner.
    """
    own = scores[found.places]
    outcomes, weights = found.examples.outcomes, found.examples.weights

    def number(y: Floats, w: Floats) -> Floats:
        if gate is None:
            return auc(own, y, w)
        passed = w * (own >= gate)
        total = passed.sum(axis=-1)
        share: Floats = np.divide((passed * y).sum(axis=-1), total, out=np.full_like(total, np.nan), where=total > 0)
        return share

    observed = float(number(outcomes[None, :], weights[None, :])[0])
    if not np.isfinite(observed) or not found.with_partner:
        return None
    # Outcomes are exchanged in place of scores: it comes to the same, and the scores are sorted only once.
    orders = _orders(found, permutations, seed)
    drawn = number(outcomes[orders], weights[orders])
    if not np.isfinite(drawn).all():
        return None
    low, high = np.quantile(drawn, [0.025, 0.975])
    # The observed order is one of the permutations, so that p is never 0 (Phipson and Smyth, 2010). A number that
    # differs by rounding alone counts as equal.
    at_least = int((drawn >= observed - 1e-12).sum())
    return Permuted(observed, float(drawn.mean()), float(low), float(high), (1 + at_least) / (1 + permutations))


def _orders(found: Matched, permutations: int, seed: int) -> Integers:
    """For each permutation whose outcome stands in the place of each state's."""
    generator = random_generator(seed)
    orders = np.tile(np.arange(len(found.examples)), (permutations, 1))
    for group in found.groups:
        drawn = generator.permuted(np.tile(np.arange(len(group)), (permutations, 1)), axis=1)
        orders[:, group] = group[drawn]
    return orders


def _groups(examples: Examples, rows: dict[str, list[int]], *, retained: bool) -> tuple[Integers, ...]:
    alike: dict[tuple[object, ...], list[list[int]]] = defaultdict(list)
    for places in rows.values():
        own = [examples.each[place] for place in places]
        pattern = tuple((e.state.rounds, e.state.retained if retained else 0) for e in own)
        alike[own[0].dataset, pattern].append(places)
    return tuple(np.array(group, dtype=np.int64) for group in alike.values() if len(group) > 1)


def _partnered(groups: tuple[Integers, ...]) -> int:
    return sum(len(group) for group in groups)
