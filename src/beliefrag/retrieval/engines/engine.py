"""What an engine must offer, so that it can be searched like the embedded one, and what the engines share."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from beliefrag.errors import SettingsError
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.types import Passage

__all__ = [
    "CHANGES",
    "EngineDescription",
    "IndexState",
    "SearchEngine",
    "check_address",
    "content_of",
    "environment",
    "id_key",
    "one_line",
    "ranking_name",
]

CHANGES = ("refuse", "follow")
"""What to do when the index changes while it is searched: fail, or search on and compare nothing."""


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """Which engine a run searched: what its record names."""

    engine: str
    """The engine with its version, such as `PostgreSQL 17.9, pg_search 0.21.14`."""
    index: str
    """The table or index."""

    def __str__(self) -> str:
        return f"{self.index} on {self.engine}"


@dataclass(frozen=True, slots=True)
class IndexState:
    """What an index holds at one moment."""

    passages: int
    fingerprint: str
    """Identifies the passages; another one means that they have changed."""


class SearchEngine(Protocol):
    """An index on an engine elsewhere. Every method may be called from several threads at once.

    Every method raises RetrievalError if the engine fails, replies late, or replies in part.
    """

    description: EngineDescription
    identity: str
    """Names the ranking."""

    def find(self, query: str, limit: int) -> tuple[list[tuple[Passage, float]], IndexState]:
        """Return the best passages with their scores, best first, and the state in which they were found."""
        ...

    def find_ids(self, query: str, limit: int) -> tuple[list[tuple[str, float]], IndexState]:
        """Return ids and scores of the best passages, best first, and the state of the index."""
        ...

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Return the passages with these ids that the index holds, by id, in one lookup."""
        ...

    def first(self, count: int) -> list[Passage]:
        """Return the first passages by id."""
        ...

    def read_passages(self) -> Iterator[list[Passage]]:
        """Yield all passages, some thousand at a time."""
        ...

    def read_state(self) -> IndexState:
        """Return the current state of the index."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def content_of(passage: Passage) -> str:
    """Return the text that is searched: title and text."""
    return f"{passage.title}\n{passage.text}"


def id_key(passage_id: str) -> int:
    """Return the number by which a graph of names knows a passage of an engine; it depends on the id alone."""
    return int.from_bytes(hashlib.sha256(passage_id.encode()).digest()[:8]) >> 1


def ranking_name(k1: float, b: float) -> str:
    """Return the identity of a BM25 ranking: that of the embedded engine if k1 and b are the same."""
    return Bm25Index.identity if (k1, b) == (1.2, 0.75) else f"bm25 k1={k1:g} b={b:g} en_stem"


def check_address(url: str, *, schemes: Sequence[str], variable: str) -> SplitResult:
    """Return the parts of an engine's address.

    Raises:
        SettingsError: It is of another kind, or it holds a password, which settings, logs and traces would then hold.
    """
    parts = urlsplit(url)
    if parts.scheme not in schemes:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else url
        raise SettingsError(
            f"{shown!r} is not an address of this engine.",
            remedy=f"Give url={schemes[0]}://HOST:PORT/... on the command line or in the settings file.",
        )
    if parts.password or "password=" in parts.query.lower():
        raise SettingsError(
            f"The address of {parts.hostname} holds a password.",
            remedy=f"Leave it out of the address and set {variable} in the environment.",
        )
    return parts


def environment(name: str) -> str | None:
    """Return a credential from the environment, or None if it is not set."""
    return os.environ.get(name) or None


def one_line(problem: object) -> str:
    """Return an error of an engine in one short line without a full stop."""
    return " ".join(str(problem).split())[:300].rstrip(".") or type(problem).__name__
