"""Writes the table of names: which passages have a name, and which names a passage has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.arrays import Arrays, ArrayWriter
from beliefrag.retrieval.linked.explicit import ResolvedLinks
from beliefrag.retrieval.linked.names import SURENESS, NameKind
from beliefrag.retrieval.linked.row_sorter import MOST_ROWS, BoundsWriter, RowSorter

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int32]

BEGINNINGS = "beginnings"
"""The array with the upper halves of the hashes of all beginnings of names, which is needed on the way only."""
_FOUND_HASH, _FOUND_PASSAGE, _FOUND_KIND = "found_hash", "found_passage", "found_kind"

_MOST_EXPLAINING = 3
"""An acronym that more passages explain, or whose long form more passages have, leads to none of them."""
_TERM_KINDS = (NameKind.TERM, NameKind.ENTRY)


@dataclass(frozen=True, slots=True)
class BlockNames:
    """The names of a block of passages, which are counted from its first one."""

    hashes: NDArray[np.uint64]
    passages: Integers
    kinds: NDArray[np.uint8]
    beginnings: tuple[NDArray[np.uint32], ...]
    """The upper halves of the hashes of all beginnings of names."""
    acronyms: NDArray[np.uint64] | None
    """Rows of an acronym, its long form, and the passage that explains it."""


class FoundNames:
    """The names of all passages, as they are found. They wait in files: there are several for each passage."""

    def __init__(self, arrays: ArrayWriter) -> None:
        self._arrays = arrays
        self._acronyms: list[Hashes] = []
        """Rows of an acronym, its long form, and the passage that explains it."""

    def add(self, block: BlockNames, first: int) -> None:
        """Adds the names of some passages, the first of which has the number `first`."""
        self._append(block.hashes, block.passages + np.int32(first), block.kinds)
        for beginnings in block.beginnings:
            self.add_beginnings(beginnings)
        if block.acronyms is not None:
            self._acronyms.append(block.acronyms + np.array([0, 0, first], np.uint64))

    def add_beginnings(self, beginnings: NDArray[np.uint32]) -> None:
        """Adds beginnings of names that are found later."""
        self._arrays.append(BEGINNINGS, beginnings)

    def add_links(self, links: ResolvedLinks) -> None:
        """Adds what explicit links lead to: places, and the words of links as names of the passages there."""
        for hashes, passages, kind in (
            (links.targets, links.target_passages, NameKind.TARGET),
            (links.texts, links.text_passages, NameKind.LINK_TEXT),
        ):
            self._append(hashes, passages, np.full(len(hashes), kind, np.uint8))

    def write(self, key_order: Integers, key_rank: Integers, count: int) -> int:
        """Writes for each name the passages that have it, in the order of their keys, and for each passage its names.

        Args:
            key_order: The passages in the order of their keys.
            key_rank: The place of each passage in that order.
            count: How many passages there are.

        Returns:
            How many names there are.
        """
        arrays = self._arrays
        self._append(*self._find_homes_of_acronyms())
        sorter = RowSorter(arrays, "sorting-names", (np.uint64, np.int64), 2)
        for hashes, passages, kinds in self._parts():
            sorter.add(hashes, key_rank[passages].astype(np.int64) << 8 | kinds)
        for name in (_FOUND_HASH, _FOUND_PASSAGE, _FOUND_KIND):
            arrays.remove(name)
        own = RowSorter(arrays, "sorting-own-names", (np.uint64, np.uint8), 1)
        bounds = BoundsWriter(arrays, "name_bounds")
        names = 0
        for block_hashes, block_homes in sorter.read_blocks():
            # A passage that has a name twice keeps the surest kind.
            ranks = block_homes >> 8
            keep = np.ones(len(block_hashes), bool)
            keep[1:] = (block_hashes[1:] != block_hashes[:-1]) | (ranks[1:] != ranks[:-1])
            hashes, kinds = block_hashes[keep], (block_homes[keep] & 0xFF).astype(np.uint8)
            passages = key_order[ranks[keep]]
            is_first = np.ones(len(hashes), bool)
            is_first[1:] = hashes[1:] != hashes[:-1]
            numbers = np.cumsum(is_first) - 1
            is_term = np.zeros(int(numbers[-1]) + 1, bool)
            is_term[numbers[np.isin(kinds, _TERM_KINDS)]] = True
            arrays.append("name_hash", hashes[is_first])
            arrays.append("name_is_term", is_term)
            arrays.append("home_passage", passages)
            arrays.append("home_kind", kinds)
            bounds.add(numbers + names)
            own.add(passages.astype(np.uint64) << np.uint64(32) | (numbers + names).astype(np.uint64), kinds)
            names += len(is_term)
        bounds.finish(names)
        bounds = BoundsWriter(arrays, "own_bounds")
        for pairs, kinds in own.read_blocks():
            bounds.add((pairs >> np.uint64(32)).astype(np.int64))
            arrays.append("own_name", (pairs & np.uint64(0xFFFFFFFF)).astype(np.int32))
            arrays.append("own_kind", kinds)
        bounds.finish(count)
        return names

    def _append(self, hashes: Hashes, passages: Integers, kinds: NDArray[np.uint8]) -> None:
        self._arrays.append(_FOUND_HASH, hashes)
        self._arrays.append(_FOUND_PASSAGE, passages)
        self._arrays.append(_FOUND_KIND, kinds)

    def _parts(self) -> Iterator[tuple[Hashes, Integers, NDArray[np.uint8]]]:
        hashes = self._arrays.read(_FOUND_HASH, np.uint64)
        passages = self._arrays.read(_FOUND_PASSAGE, np.int32)
        kinds = self._arrays.read(_FOUND_KIND, np.uint8)
        for low in range(0, len(hashes), MOST_ROWS):
            part = slice(low, low + MOST_ROWS)
            yield hashes[part], passages[part], kinds[part]

    def _find_homes_of_acronyms(self) -> tuple[Hashes, Integers, NDArray[np.uint8]]:
        """Gives acronyms with the passages that they lead to.

        These are the passages whose title is the long form; where there is none, those that explain the acronym, if
        they are few.
        """
        table = np.concatenate([np.zeros((0, 3), np.uint64), *self._acronyms])
        pairs, which = np.unique(table[:, :2], axis=0, return_inverse=True)
        titles, title_passages = self._find_titles(np.unique(pairs[:, 1]))
        low, high = (np.searchsorted(titles, pairs[:, 1], side) for side in ("left", "right"))
        short, whose = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
        explained = np.argsort(which.ravel(), kind="stable")
        ends = np.searchsorted(which.ravel()[explained], np.arange(len(pairs) + 1))
        for at, acronym in enumerate(pairs[:, 0]):
            homes = title_passages[low[at] : high[at]]
            if not len(homes):
                homes = np.unique(table[explained[ends[at] : ends[at + 1]], 2]).astype(np.int32)
            if len(homes) <= _MOST_EXPLAINING:
                short.append(np.full(len(homes), acronym))
                whose.append(homes)
        hashes = np.concatenate(short)
        return hashes, np.concatenate(whose), np.full(len(hashes), NameKind.ACRONYM, np.uint8)

    def _find_titles(self, wanted: Hashes) -> tuple[Hashes, Integers]:
        """Gives the titles that are among the wanted names, rising, each with its passage."""
        found, homes = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
        for hashes, passages, kinds in self._parts():
            here = np.flatnonzero((SURENESS[kinds] <= NameKind.PLAIN_TITLE) & np.isin(hashes, wanted))
            found.append(hashes[here])
            homes.append(passages[here])
        titles = np.concatenate(found)
        order = np.argsort(titles, kind="stable")
        return titles[order], np.concatenate(homes)[order]


class OwnNames:
    """Which names each passage has."""

    def __init__(self, arrays: Arrays) -> None:
        self._names = arrays.read("own_name", np.int32)
        self._bounds = arrays.read("own_bounds", np.int32)

    def has(self, passages: NDArray[np.int64], names: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Says of each pair whether the passage has the name; the passages lie close to each other."""
        if not len(passages):
            return np.zeros(0, bool)
        low, high = int(passages.min()), int(passages.max()) + 1
        bounds = self._bounds[low : high + 1]
        if bounds[0] == bounds[-1]:
            return np.zeros(len(passages), bool)
        owners = np.repeat(np.arange(low, high, dtype=np.int64), np.diff(bounds))
        # The names of a passage rise, so these pairs do.
        owned = owners << 32 | self._names[bounds[0] : bounds[-1]]
        pairs = passages << 32 | names
        return np.asarray(owned[np.minimum(np.searchsorted(owned, pairs), len(owned) - 1)] == pairs)
