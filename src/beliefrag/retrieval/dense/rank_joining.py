"""Joins several rankings into one by the ranks that a passage has in each (reciprocal rank fusion)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["DEPTH", "JoinedHit", "join_by_ranks"]

DEPTH = 100
"""How many hits of each ranking are joined, where no more are asked for."""
_FLATTEN = 60
"""A hit at rank r counts 1 / (60 + r): the constant that the method was published with."""


class JoinedHit(NamedTuple):
    """A passage in the joined ranking."""

    id: str
    score: float
    ways: str
    """The names of the rankings that found it, joined by `+`."""


def join_by_ranks(rankings: Mapping[str, Sequence[str]], k: int) -> list[JoinedHit]:
    """Gives the k passages that stand highest in all rankings together; equal ones by id.

    Args:
        rankings: The ids that each ranking found, best first, by its name.
        k: How many are wanted.
    """
    score: dict[str, float] = {}
    ways: dict[str, list[str]] = {}
    for name, ids in rankings.items():
        for rank, passage_id in enumerate(ids, start=1):
            score[passage_id] = score.get(passage_id, 0.0) + 1 / (_FLATTEN + rank)
            ways.setdefault(passage_id, []).append(name)
    best = sorted(score, key=lambda one: (-score[one], one))[:k]
    return [JoinedHit(one, score[one], "+".join(ways[one])) for one in best]
