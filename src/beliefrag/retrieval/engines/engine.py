"""What an engine elsewhere must be able to do, so that it can be searched and filled like the embedded one."""

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

__all__ = ["EngineDescription", "IndexState", "SearchEngine", "check_address", "content_of", "id_key", "ranking_name"]


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """Which engine a run searched: what its record names."""

    engine: str
    """The engine with its version, such as `PostgreSQL 17.9, pg_search 0.21.14`."""
    index: str
    """The table, index or collection."""

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

    Every method raises RetrievalError where the engine fails, answers late, or answers in part.
    """

    description: EngineDescription
    identity: str
    """Names the ranking."""
    seconds: float
    """How long a search may take."""

    def find(self, query: str, limit: int) -> tuple[list[tuple[Passage, float]], IndexState]:
        """Gives the best passages with their scores, best first, and the state in which they were found.

        The query is words, never syntax.
        """
        ...

    def find_ids(self, query: str, limit: int) -> tuple[list[tuple[str, float]], IndexState]:
        """Gives ids and scores of the best passages, best first, without their texts, and the state of the index."""
        ...

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Gives the passages with these ids that are there, by id, in one lookup."""
        ...

    def first(self, count: int) -> list[Passage]:
        """Gives the first passages by id."""
        ...

    def read_passages(self) -> Iterator[list[Passage]]:
        """Gives all passages, some thousand at a time."""
        ...

    def read_state(self) -> IndexState:
        """Gives the state of the index as it is now."""
        ...

    def close(self) -> None:
        """Lets the connections go."""
        ...


def content_of(passage: Passage) -> str:
    """Gives the text that is searched: title and text."""
    return f"{passage.title}\n{passage.text}"


def id_key(passage_id: str) -> int:
    """Gives the number by which a graph of names knows a passage of an engine: it follows from the id alone."""
    return int.from_bytes(hashlib.sha256(passage_id.encode()).digest()[:8]) >> 1


def ranking_name(k1: float, b: float, words: str = "") -> str:
    """Gives the identity of a BM25 ranking: that of the embedded engine where terms, k1 and b are the same."""
    if not words and (k1, b) == (1.2, 0.75):
        return Bm25Index.identity
    return f"bm25 k1={k1:g} b={b:g} {words or 'en_stem'}"


def check_address(url: str, *, schemes: Sequence[str], variable: str) -> SplitResult:
    """Gives the parts of an engine's address.

    Raises:
        SettingsError: There is none, it is of another kind, or it holds a password, which settings, logs and traces
            would then hold too.
    """
    parts = urlsplit(url)
    if parts.scheme not in schemes:
        raise SettingsError(
            f"{_without_password(parts)!r} is no address of this engine.",
            remedy=f"Give url={schemes[0]}://HOST:PORT/... on the command line or in the settings file.",
        )
    if parts.password or "password=" in parts.query.lower():
        raise SettingsError(
            f"The address of {parts.hostname} holds a password.",
            remedy=f"Leave it out of the address and set {variable} in the environment.",
        )
    return parts


def _without_password(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else parts.geturl()


def environment(name: str) -> str | None:
    """Gives a credential from the environment, or None where it is not set."""
    return os.environ.get(name) or None
