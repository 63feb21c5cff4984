"""What a retriever looks like: one method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from beliefrag.types import Hit

__all__ = ["Retriever"]


@runtime_checkable
class Retriever(Protocol):
    """Finds passages. Anything with this one method can be searched: an index here, a cluster, a wrapper.

    Two attributes are looked at where a retriever has them. `identity`, a text, names the ranking: a calibration that
    was fitted with another one is then refused. `score_scale`, a `ScoreScale`, says where its scores lie; without it,
    they are taken for BM25 scores.
    """

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Returns at most k hits, best first.

        Called in a worker thread, so it may block; it must be safe to call from several threads at once.

        Raises:
            RetrievalError: The search failed. Finding nothing is not a failure: return an empty sequence.
        """
        ...
