"""The evidence workspace: the one place where the retained passages change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from beliefrag.types import Hit, Passage


@dataclass(frozen=True, slots=True)
class EvidenceChange:
    """What a search did to the evidence."""

    added: tuple[Passage, ...] = ()
    known: tuple[str, ...] = ()
    """Returned, but already retained."""
    refused: tuple[str, ...] = ()
    """Returned, but dropped earlier."""


@dataclass(slots=True)
class _Entry:
    passage: Passage
    score: float
    round: int
    rank: int


@dataclass(slots=True)
class Evidence:
    """The passages an episode holds.

    Passages are kept in the order in which they came so that a prompt built from them begins like the one before
    it and a model server can reuse the shared beginning.
    A passage that was dropped never comes back.
    """

    _entries: dict[str, _Entry] = field(default_factory=dict)
    _dropped: set[str] = field(default_factory=set)
    _rounds: int = 0

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The retained passages in the order in which they came."""
        return tuple(entry.passage for entry in self._entries.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """The retained ids in the same order."""
        return tuple(self._entries)

    @property
    def scores(self) -> tuple[float, ...]:
        """The best raw score at which each retained passage was returned."""
        return tuple(entry.score for entry in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, hits: Sequence[Hit]) -> EvidenceChange:
        """Add what a search returned, best first, except what was dropped before."""
        self._rounds += 1
        added: list[Passage] = []
        known: list[str] = []
        refused: list[str] = []
        for rank, hit in enumerate(hits):
            identifier = hit.passage.id
            if identifier in self._dropped:
                refused.append(identifier)
                continue
            if identifier in self._entries:
                if identifier not in known and hit.passage not in added:
                    known.append(identifier)
            else:
                self._entries[identifier] = _Entry(hit.passage, hit.score, self._rounds, rank)
                added.append(hit.passage)
            entry = self._entries[identifier]
            entry.score = max(entry.score, hit.score)
        return EvidenceChange(tuple(added), tuple(known), tuple(refused))

    def drop(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Remove passages. Ids that are not retained are passed over; returns those removed."""
        removed = tuple(each for each in ids if self._entries.pop(each, None) is not None)
        self._dropped.update(removed)
        return removed

    def window(self, size: int) -> tuple[Passage, ...]:
        """Return at most `size` retained passages, for a prompt.

        Where there are more, each search keeps its best: BM25 scores of different queries cannot be compared, ranks
        can. The passages come in the order in which they entered.
        """
        by_rank = sorted(self._entries.values(), key=lambda entry: (entry.rank, -entry.round))
        chosen = {entry.passage.id for entry in by_rank[:size]}
        return tuple(passage for passage in self.passages if passage.id in chosen)
