"""Which questions are for fitting, for choosing and held out: decided by hashing ids, never by chance (SPEC 9).

A hash needs no state: every machine, version and order of questions gives the same choice. So an artifact that names
the questions that it was fitted and chosen on can be held against what it says of itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum

__all__ = ["SALT", "Partition", "held_out", "partition", "place"]

SALT = "beliefrag-1"
"""Fixed for good: another salt would move questions between fitting and holdout."""


class Partition(StrEnum):
    """The three parts of a study (SPEC 9): fit on one, choose on the next, and report on the last."""

    XFIT = "xfit"
    XSEL = "xsel"
    XHOLD = "xhold"


def partition(question_id: str, *, salt: str = SALT) -> Partition:
    """The part that a question belongs to: 40 % xfit, 30 % xsel, 30 % xhold, by a salted hash of its id."""
    # Integers throughout: the border lies at the same id on every machine.
    found = place("partition", salt, question_id)
    whole = 1 << 256
    if found * 10 < whole * 4:
        return Partition.XFIT
    return Partition.XSEL if found * 10 < whole * 7 else Partition.XHOLD


def held_out(question_ids: Iterable[str]) -> tuple[str, ...]:
    """Those of these questions that nothing may be fitted or chosen on."""
    return tuple(each for each in question_ids if partition(each) is Partition.XHOLD)


def place(purpose: str, salt: str, question_id: str) -> int:
    """Where a question lies among all for a purpose, from 0 up to 2 to the 256."""
    # The lengths keep ("a", "bc") and ("ab", "c") apart.
    text = f"{purpose}:{len(salt)}:{salt}:{question_id}"
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")
