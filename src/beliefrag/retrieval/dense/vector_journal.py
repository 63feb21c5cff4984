"""Vectors on the way: each is written down as soon as it is made, so that a killed process loses only its last block.

The file has a head (the number of dimensions) and one record for each vector: its key, a checksum and the numbers. What
a kill left unfinished at the end is cut off when the file is opened again.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["VectorJournal"]

_HEAD = b"vectors1"


class VectorJournal:
    """The vectors that an unfinished work has made, by key. One process writes at a time; its caller holds a lock."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[int, NDArray[np.float16]]:
        """Gives the vectors that are there and whole, and cuts off what is not."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        start = len(_HEAD) + 4
        if len(content) < start or not content.startswith(_HEAD):
            self.remove()
            return {}
        kind = _record(int.from_bytes(content[len(_HEAD) : start], "little"))
        count = (len(content) - start) // kind.itemsize
        records = np.frombuffer(content, kind, count, start)
        keys, vectors = records["key"].tolist(), records["vector"]
        whole = 0
        while whole < count and records["crc"][whole] == _checksum(keys[whole], vectors[whole]):
            whole += 1
        if (end := start + whole * kind.itemsize) < len(content):
            with self._path.open("r+b") as file:
                file.truncate(end)
        return dict(zip(keys[:whole], vectors[:whole], strict=True))

    def append(self, keys: Sequence[int], vectors: NDArray[np.float16]) -> None:
        """Writes vectors down."""
        records = np.zeros(len(keys), _record(vectors.shape[1]))
        records["key"] = keys
        records["crc"] = [_checksum(key, vector) for key, vector in zip(keys, vectors, strict=True)]
        records["vector"] = vectors
        with self._path.open("ab") as file:
            if not file.tell():
                file.write(_HEAD + vectors.shape[1].to_bytes(4, "little"))
            file.write(records.tobytes())

    def remove(self) -> None:
        """Removes the file, when its vectors are kept elsewhere."""
        self._path.unlink(missing_ok=True)


def _record(dimensions: int) -> np.dtype[np.void]:
    return np.dtype([("key", "<i8"), ("crc", "<u4"), ("vector", "<f2", (dimensions,))])


def _checksum(key: int, vector: NDArray[np.float16]) -> int:
    return zlib.crc32(np.ascontiguousarray(vector).tobytes(), key & 0xFFFFFFFF)
