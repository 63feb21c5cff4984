"""The vectors of a corpus, kept in the cache under the fingerprint of its passages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.file_lock import hold_lock
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.dense.embedder import Embed
from beliefrag.retrieval.linked.arrays import ArrayFolder, Arrays, ArrayWriter, MemoryArrays, write_folder
from beliefrag.retrieval.passage_store import PassageRow

__all__ = ["PassageVectors", "open_vectors"]

_FORMAT = 1
_BLOCK = 64
_SEARCHED_TOGETHER = 65_536
"""Vectors that are turned into 32-bit numbers at once, so that memory does not grow with the corpus."""


@dataclass(frozen=True, slots=True)
class PassageVectors:
    """The vectors of the passages of an index, found again by their keys."""

    keys: NDArray[np.int64]
    vectors: NDArray[np.float16]

    @classmethod
    def read(cls, arrays: Arrays) -> PassageVectors:
        """Reads what was written."""
        keys = arrays.read("keys", np.int64)
        vectors = arrays.read("vectors", np.float16)
        return cls(keys, vectors.reshape(len(keys), -1) if len(keys) else vectors.reshape(0, 1))

    def nearest(self, vector: NDArray[np.float32], k: int) -> tuple[list[int], list[float]]:
        """Gives the places of the k nearest passages, nearest first, with their cosines; equal ones by key."""
        if not len(self.keys) or not k:
            return [], []
        cosines = np.empty(len(self.keys), np.float32)
        for low in range(0, len(self.keys), _SEARCHED_TOGETHER):
            block = self.vectors[low : low + _SEARCHED_TOGETHER].astype(np.float32)
            np.matmul(block, vector, out=cosines[low : low + len(block)])
        k = min(k, len(cosines))
        # All that are as near as the last one are looked at, so that ties do not depend on the order of indexing.
        cut = np.partition(cosines, len(cosines) - k)[len(cosines) - k]
        near = np.flatnonzero(cosines >= cut)
        near = near[np.lexsort((self.keys[near], -cosines[near]))][:k]
        return near.tolist(), cosines[near].tolist()


def open_vectors(index: Bm25Index, embed: Embed, model: str, cache: Path) -> tuple[PassageVectors, list[str]]:
    """Gives the vectors of all passages of an index, with their ids; made once, and then read from the cache.

    Vectors that an earlier state of the corpus has are used again, so a change costs what changed.

    Args:
        index: The passages.
        embed: Makes vectors.
        model: Names the model: vectors of another one are not used.
        cache: The folder of the cache.
    """
    ids = {key: passage_id for block in index.read_rows() for key, passage_id, *_ in block}
    base = cache / "vectors" / hashlib.sha256(model.encode()).hexdigest()[:16]
    folder = base / index.fingerprint
    vectors = _read(folder)
    if vectors is None:
        base.mkdir(parents=True, exist_ok=True)
        with hold_lock(base / "lock"):
            vectors = _read(folder)
            if vectors is None:
                known = _known_vectors(base)
                write_folder(folder, lambda arrays: _write(arrays, index, embed, known))
                vectors = _read(folder)
    if vectors is None:
        vectors = _in_memory(index, embed)
    return vectors, [ids[key] for key in vectors.keys.tolist()]


def _in_memory(index: Bm25Index, embed: Embed) -> PassageVectors:
    arrays = MemoryArrays()
    _write(arrays, index, embed, {})
    return PassageVectors.read(arrays)


def _read(folder: Path) -> PassageVectors | None:
    try:
        arrays = ArrayFolder(folder)
        if arrays.header.get("format") == _FORMAT and arrays.is_whole():
            return PassageVectors.read(arrays)
    except (OSError, ValueError, KeyError):
        pass
    return None


def _known_vectors(base: Path) -> dict[int, NDArray[np.float16]]:
    """Gives the vectors of the newest earlier state of a corpus that is there, by key."""
    folders = sorted((each for each in base.iterdir() if each.is_dir()), key=lambda each: -each.stat().st_mtime)
    for folder in folders[:1]:
        held = _read(folder)
        if held is not None:
            return dict(zip(held.keys.tolist(), held.vectors, strict=True))
    return {}


def _write(
    arrays: ArrayWriter, index: Bm25Index, embed: Embed, known: dict[int, NDArray[np.float16]]
) -> dict[str, Any]:
    count = 0
    for rows in _short_blocks(index):
        new = [f"{title}. {text}" if title else text for key, _, title, text, *_ in rows if key not in known]
        fresh = iter(embed(new).astype(np.float16)) if new else iter(())
        arrays.append("keys", np.array([key for key, *_ in rows], np.int64))
        block = [known[key] if key in known else next(fresh) for key, *_ in rows]
        arrays.append("vectors", np.stack(block).ravel())
        count += len(rows)
    return {"format": _FORMAT, "passages": count}


def _short_blocks(index: Bm25Index) -> Iterator[list[PassageRow]]:
    for block in index.read_rows():
        for low in range(0, len(block), _BLOCK):
            yield block[low : low + _BLOCK]
