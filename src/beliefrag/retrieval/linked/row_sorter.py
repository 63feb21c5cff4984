"""Sort more rows than memory holds: rows wait in files and are split into ranges of keys, which are sorted in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from beliefrag.retrieval.linked.arrays import ArrayWriter

MOST_ROWS = 1 << 18
"""About how many rows are held in memory at once."""
_SAMPLED = 64
"""Rows per range that are sampled to find ranges of about equal size."""

Column = NDArray[Any]


class RowSorter:
    """Collect rows in any order and return them sorted.

    Args:
        arrays: Where the rows wait; they are removed after they were read.
        name: A unique name for the files of the rows.
        kinds: The type of each column.
        keys: How many of the first columns decide the order. Rows with equal keys keep the order they were added in.
    """

    def __init__(self, arrays: ArrayWriter, name: str, kinds: Sequence[DTypeLike], keys: int) -> None:
        self._arrays = arrays
        self._names = [f"{name}-{column}" for column in range(len(kinds))]
        self._kinds = kinds
        self._keys = keys

    def add(self, *columns: Column) -> None:
        """Add rows, given as columns of equal length."""
        for name, kind, column in zip(self._names, self._kinds, columns, strict=True):
            self._arrays.append(name, column.astype(kind, copy=False))

    def read_blocks(self) -> Iterator[tuple[Column, ...]]:
        """Yield all rows in order, block by block. Rows with an equal first column are in one block."""
        columns = [self._arrays.read(name, kind) for name, kind in zip(self._names, self._kinds, strict=True)]
        if len(columns[0]):
            for rows in self._split(columns[0]):
                block = [column[rows] for column in columns]
                order = _find_order(block[: self._keys])
                yield tuple(column[order] for column in block)
        for name in self._names:
            self._arrays.remove(name)

    def _split(self, first: Column) -> Iterator[Any]:
        """Yield the rows of each range of the first column, in the order they were added in."""
        parts = -(-len(first) // MOST_ROWS)
        if parts == 1:
            yield slice(None)
            return
        sample = np.sort(first[:: max(len(first) // (_SAMPLED * parts), 1)])
        limits = np.unique(sample[np.arange(1, parts) * len(sample) // parts])
        part = self._arrays.make_table(len(first), np.uint16)
        for low in range(0, len(first), MOST_ROWS):
            part[low : low + MOST_ROWS] = np.searchsorted(limits, first[low : low + MOST_ROWS], side="right")
        for number in range(len(limits) + 1):
            rows = np.flatnonzero(part == number)
            if len(rows):
                yield rows


def _find_order(columns: Sequence[Column]) -> NDArray[np.int64]:
    """Return the order that sorts rows, the first column first; equal rows keep their order.

    NumPy's unstable sort is several times faster. It sorts by the first column; only ties are sorted again.
    """
    first = columns[0]
    order = np.argsort(first)
    rising = first[order]
    same = rising[1:] == rising[:-1]
    if not same.any():
        return order
    tied = np.zeros(len(order), bool)
    tied[1:] = same
    tied[:-1] |= same
    places = np.flatnonzero(tied)
    rows = order[places]
    begins = np.ones(len(places), bool)
    begins[1:] = rising[places[1:]] != rising[places[:-1]]
    groups = np.cumsum(begins)
    if len(columns) == 1:
        order[places] = np.sort(groups << 32 | rows) & 0xFFFFFFFF
    else:
        order[places] = rows[np.lexsort((rows, *(column[rows] for column in columns[:0:-1]), groups))]
    return order


def write_order(arrays: ArrayWriter, name: str, kind: DTypeLike, order: str) -> None:
    """Write the order that sorts the values of an array; equal values keep their order."""
    sorter = RowSorter(arrays, f"sorting-{name}", (kind, np.int32), 1)
    values = arrays.read(name, kind)
    for low in range(0, len(values), MOST_ROWS):
        part = values[low : low + MOST_ROWS]
        sorter.add(part, np.arange(low, low + len(part), dtype=np.int32))
    for _, places in sorter.read_blocks():
        arrays.append(order, places)


class BoundsWriter:
    """Write where the rows of groups 0, 1, 2 and so on begin, followed by where all rows end.

    Args:
        arrays: Where the bounds are written.
        name: The name of the array of bounds.
    """

    def __init__(self, arrays: ArrayWriter, name: str) -> None:
        self._arrays = arrays
        self._name = name
        self._next = self._rows = 0

    def add(self, groups: Column) -> None:
        """Add rows by the groups they belong to. Groups rise, across calls too."""
        if not len(groups):
            return
        last = int(groups[-1])
        begins = np.searchsorted(groups, np.arange(self._next, last + 1))
        self._arrays.append(self._name, (begins + self._rows).astype(np.int32))
        self._next = max(self._next, last + 1)
        self._rows += len(groups)

    def finish(self, groups: int) -> None:
        """Write the bounds of the remaining groups, given the number of all groups."""
        self._arrays.append(self._name, np.full(groups + 1 - self._next, self._rows, np.int32))
