"""Which questions a run takes and which part of a study they belong to: decided by hashing ids, never by chance.

A hash needs no state: every machine, version and order of questions gives the same choice, and a sample that grows
keeps what it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from beliefrag.runs.partitions import SALT, Partition, partition, place

__all__ = ["SALT", "Partition", "partition", "sample"]


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


_Q = TypeVar("_Q", bound=_Identified)


def sample(questions: Sequence[_Q], n: int, seed: int = 0) -> tuple[_Q, ...]:
    """The same `n` questions everywhere, for a seed.

    Questions are put in the order of a hash of seed and id, and the first `n` are taken: the order of the file does
    not matter, and a larger `n` begins with the same questions. With fewer than `n` there, all of them.

    Raises:
        ValueError: `n` is less than 1, or an id occurs twice.
    """
    if n < 1:
        raise ValueError(f"a sample has at least one question, not {n}")
    by_id = {question.id: question for question in questions}
    if len(by_id) < len(questions):
        raise ValueError("a sample needs unique question ids")
    order = sorted(by_id, key=lambda question_id: (place("sample", str(seed), question_id), question_id))
    return tuple(by_id[question_id] for question_id in order[:n])
