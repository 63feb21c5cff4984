"""What the engines share: their options, what describes them, and how passages and errors are written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import PositiveFloat

from beliefrag.errors import SettingsError
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.types import Passage


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options that every engine has."""

    url: str = ""
    """The address, without a password."""
    id: str = ""
    """In an index of your own: the field with the id."""
    title: str = ""
    """In an index of your own: the field with the title, if there is one."""
    text: str = ""
    """In an index of your own: the field with the text. Without it, the index is one that `beliefrag index` made."""
    source: str = ""
    """In an index of your own: the field that says where a passage comes from, if there is one."""
    k1: float = 1.2
    b: float = 0.75
    """k1 and b of BM25, for a new index."""
    timeout: PositiveFloat = 30.0
    """How many seconds a search may take."""
    changes: Literal["refuse", "follow"] = "refuse"
    """What to do when the index changes while it is searched: fail, or search on and compare nothing."""
    fill: bool = False
    """Put the passages that are given into an index of their own, named after their fingerprint."""
    linked: bool = False
    """Follow names between passages, as the retriever `linked` does."""

    @property
    def is_own(self) -> bool:
        """Whether the index is the user's own, made by somebody else."""
        return bool(self.text)

    @property
    def identity(self) -> str | None:
        """Names the ranking before anything is opened; None if only the index can tell."""
        return None if self.is_own or self.linked else ranking_name(self.k1, self.b)

    def rename(self, **names: Any) -> Self:
        """Return the options for an index of another name that `beliefrag index` makes."""
        return replace(self, id="", title="", text="", source="", **names)

    def check_fillable(self) -> None:
        """Raise SettingsError if the index is the user's own."""
        if self.is_own:
            raise SettingsError(
                "BeliefRAG only reads an index or table of your own.",
                remedy="Leave text=, title=, id= and source= out to make one.",
            )


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """Which engine a run searched: what its record names."""

    engine: str
    """The engine with its version, such as `PostgreSQL 17.9, pg_search 0.21.14`."""
    index: str
    """The table or index."""

    def __str__(self) -> str:
        return f"{self.index} on {self.engine}"


class IndexState(NamedTuple):
    """What an index holds at one moment."""

    passages: int
    fingerprint: str
    """Identifies the passages; another one means that they have changed."""


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
    """Return the parts of an engine's address."""
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
