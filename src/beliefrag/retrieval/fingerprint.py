"""One short string that says which passages an index holds.

The sum (modulo 2^256) of one SHA-256 per passage does not depend on the order of the passages, and adding or removing
one passage changes it by one addition. So an index grown in a hundred steps and one built at once agree, and nobody has
to read the passages again to know. It tells apart corpora that differ by accident or by work; it is no defence against
somebody who constructs a collision on purpose.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from beliefrag.types import Passage

__all__ = ["EMPTY", "CorpusState", "passage_digest"]

_MODULUS = 1 << 256


def passage_digest(passage: Passage) -> int:
    """Gives the number that stands for a passage's id, title and text; where it came from is left out.

    Raises:
        UnicodeEncodeError: The passage holds half of a surrogate pair, which no file or index can store.
    """
    # The two lengths make it unambiguous where the id ends and the text begins.
    content = f"{len(passage.id)},{len(passage.title)},{passage.id}{passage.title}{passage.text}"
    return int.from_bytes(hashlib.sha256(content.encode()).digest())


@dataclass(frozen=True, slots=True)
class CorpusState:
    """How many passages there are, and the sum of their digests."""

    passages: int
    total: int

    @classmethod
    def from_sum(cls, passages: int, total: int) -> CorpusState:
        """Gives the state with this many passages and this sum of digests, which may have any size and sign."""
        return cls(passages, total % _MODULUS)

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits, equal for two corpora exactly when their (id, title, text) sets are."""
        return hashlib.sha256(f"{self.passages}:{self.total:064x}".encode()).hexdigest()[:32]


EMPTY = CorpusState(0, 0)
"""The corpus without passages."""
