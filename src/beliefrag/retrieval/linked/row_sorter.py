"""Sorts more rows than memory holds: sorted runs wait in files and are merged block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from beliefrag.retrieval.linked.arrays import ArrayWriter

__all__ = ["MOST_ROWS", "BoundsWriter", "RowSorter", "find_order", "write_order"]

MOST_ROWS = 1 << 18
"""Rows that are held in memory before they are written to a sorted run."""

Column = NDArray[Any]


class RowSorter:
    """Takes rows in any order and gives them back sorted, holding some hundred thousand of them at a time.

    Args:
        arrays: Where runs wait; they are removed when all rows were given back.
        name: A name for the files of the runs, which nothing else there has.
        kinds: The type of each column.
        keys: How many of the first columns decide the order. Of rows that are equal in these, the one that was added
            first comes first.
    """

    def __init__(self, arrays: ArrayWriter, name: str, kinds: Sequence[DTypeLike], keys: int) -> None:
        self._arrays = arrays
        self._names = [f"{name}-{column}" for column in range(len(kinds))]
        self._kinds = kinds
        self._keys = keys
        self._added: list[tuple[Column, ...]] = []
        self._held = 0
        self._bounds = [0]

    def add(self, *columns: Column) -> None:
        """Adds rows, given as columns of equal length."""
        # A column that is longer than what may be held is added in pieces.
        for low in range(0, len(columns[0]), MOST_ROWS):
            self._add_piece(*(column[low : low + MOST_ROWS] for column in columns))

    def _add_piece(self, *columns: Column) -> None:
        if self._held + len(columns[0]) > MOST_ROWS:
            self._write_run()
        self._added.append(columns)
        self._held += len(columns[0])

    def read_blocks(self) -> Iterator[tuple[Column, ...]]:
        """Gives all rows in their order, block by block. Rows that are equal in the first column come in one block."""
        if len(self._bounds) == 1:
            if self._held:
                yield self._take_held()
            return
        if self._held:
            self._write_run()
        yield from self._merge()
        for name in self._names:
            self._arrays.remove(name)

    def _take_held(self) -> tuple[Column, ...]:
        columns = [
            np.concatenate([piece[place] for piece in self._added]).astype(kind, copy=False)
            for place, kind in enumerate(self._kinds)
        ]
        self._added, self._held = [], 0
        return _sort(columns, self._keys)

    def _write_run(self) -> None:
        columns = self._take_held()
        for name, column in zip(self._names, columns, strict=True):
            self._arrays.append(name, column)
        self._bounds.append(self._bounds[-1] + len(columns[0]))

    def _merge(self) -> Iterator[tuple[Column, ...]]:
        columns = [self._arrays.read(name, kind) for name, kind in zip(self._names, self._kinds, strict=True)]
        first = columns[0]
        runs = list(zip(self._bounds[:-1], self._bounds[1:], strict=True))
        step = max(MOST_ROWS // len(runs), 1)
        while runs:
            # Every row up to this one stands among the next `step` rows of its run, but for rows that are equal to it.
            last = min(first[min(low + step, high) - 1] for low, high in runs)
            cuts = [low + int(np.searchsorted(first[low:high], last, side="right")) for low, high in runs]
            pieces = [slice(low, cut) for (low, _), cut in zip(runs, cuts, strict=True)]
            yield _sort([np.concatenate([column[piece] for piece in pieces]) for column in columns], self._keys)
            runs = [(cut, high) for (_, high), cut in zip(runs, cuts, strict=True) if cut < high]


def _sort(columns: Sequence[Column], keys: int) -> tuple[Column, ...]:
    order = find_order(columns[:keys])
    return tuple(column[order] for column in columns)


def find_order(columns: Sequence[Column]) -> NDArray[np.int64]:
    """Gives the order in which rows rise, the first column first; equal rows stay in the order that they have.

    Numpy sorts several times faster when equal values may come in any order. So the first column is sorted like that,
    and then only those rows again that are equal in it.
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
    """Writes the order in which the values of an array rise; of equal ones the first comes first."""
    sorter = RowSorter(arrays, f"sorting-{name}", (kind, np.int32), 1)
    values = arrays.read(name, kind)
    for low in range(0, len(values), MOST_ROWS):
        part = values[low : low + MOST_ROWS]
        sorter.add(part, np.arange(low, low + len(part), dtype=np.int32))
    for _, places in sorter.read_blocks():
        arrays.append(order, places)


class BoundsWriter:
    """Writes where the rows of each group begin, for groups 0, 1, 2 and so on, and at last where all rows end.

    Args:
        arrays: Where the bounds are written, ...
        name: ... and as what.
    """

    def __init__(self, arrays: ArrayWriter, name: str) -> None:
        self._arrays = arrays
        self._name = name
        self._next = self._rows = 0

    def add(self, groups: Column) -> None:
        """Adds rows by the groups that they belong to; groups rise from each call to the next one, too."""
        if not len(groups):
            return
        last = int(groups[-1])
        begins = np.searchsorted(groups, np.arange(self._next, last + 1))
        self._arrays.append(self._name, (begins + self._rows).astype(np.int32))
        self._next = max(self._next, last + 1)
        self._rows += len(groups)

    def finish(self, groups: int) -> None:
        """Writes the rest: there are this many groups."""
        self._arrays.append(self._name, np.full(groups + 1 - self._next, self._rows, np.int32))
