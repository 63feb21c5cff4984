"""What indexing tells: how far it has come, and in the end what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from beliefrag.retrieval.files import Skipped

__all__ = ["IndexProgress", "IndexReport", "OnProgress"]


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far indexing has come."""

    files_done: int
    files_total: int
    passages: int
    """Passages added so far in this run."""
    path: str
    """The file in hand, printable."""


OnProgress = Callable[[IndexProgress], None]
"""Called before every file, and now and then within a large one."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an indexing run did."""

    files_read: int
    files_unchanged: int
    files_removed: int
    skipped: tuple[Skipped, ...]
    """Files that gave nothing, and parts of files that were left out, with reasons."""
    passages_added: int
    passages_removed: int
    passages_total: int
    seconds: float
    fingerprint: str
