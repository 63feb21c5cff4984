"""Which questions a run takes, and to which part of a study they belong: decided by hashing ids, never by chance.

A hash needs no state: every machine, version and order of questions gives the same choice, and a sample that grows
keeps what it had. So an artifact that names the questions that it was fitted and chosen on can be checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

SALT = "beliefrag-1"
"""Fixed for good: another salt would move questions between fitting and holdout."""


class Partition(StrEnum):
    """The three parts of a study: fit on one, choose on the next, and report on the last."""

    XFIT = "xfit"
    XSEL = "xsel"
    XHOLD = "xhold"


def partition(question_id: str) -> Partition:
    """Return the part that a question belongs to: 40 % xfit, 30 % xsel, 30 % xhold, by a salted hash of its id."""
    # Integers throughout: the border lies at the same id on every machine.
    found = hash_position("partition", SALT, question_id)
    whole = 1 << 256
    if found * 10 < whole * 4:
        return Partition.XFIT
    return Partition.XSEL if found * 10 < whole * 7 else Partition.XHOLD


def select_held_out(question_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the questions among these that nothing may be fitted or chosen on."""
    return tuple(each for each in question_ids if partition(each) is Partition.XHOLD)


def hash_position(purpose: str, salt: str, question_id: str) -> int:
    """Return the position of a question among all for a purpose, from 0 up to 2 to the 256."""
    # The lengths keep ("a", "bc") and ("ab", "c") apart.
    text = f"{purpose}:{len(salt)}:{salt}:{question_id}"
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


_Q = TypeVar("_Q", bound=_Identified)


def sample(questions: Sequence[_Q], n: int, seed: int = 0) -> tuple[_Q, ...]:
    """Draw the same `n` questions everywhere, for a seed.

    Questions are put in the order of a hash of seed and id, and the first `n` are taken: the order of the file does
    not matter, and a larger `n` begins with the same questions. With fewer than `n` there, all of them.
    """
    if n < 1:
        raise ValueError(f"a sample has at least one question, not {n}")
    by_id = {question.id: question for question in questions}
    if len(by_id) < len(questions):
        raise ValueError("a sample needs unique question ids")
    order = sorted(by_id, key=lambda question_id: (hash_position("sample", str(seed), question_id), question_id))
    return tuple(by_id[question_id] for question_id in order[:n])
