"""What a retriever looks like: one method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from beliefrag.types import Hit

__all__ = ["Retriever"]


@runtime_checkable
class Retriever(Protocol):
    """Finds passages. Anything with this one method can be searched: an index here, a cluster, a wrapper."""

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Returns at most k hits, best first.

        Called in a worker thread, so it may block; it must be safe to call from several threads at once.

        Raises:
            RetrievalError: The search failed. Finding nothing is not a failure: return an empty sequence.
        """
        ...
