"""The vectors of a corpus in the cache, as `vectors/MODEL/FINGERPRINT`.

They are sorted by the keys of the passages. While they are made, each block is appended to a journal so that a killed
process loses only its last one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beliefrag.file_lock import hold_lock
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.dense.embedding_model import EmbeddingModel
from beliefrag.retrieval.store import PassageRow, sync_folder

_UNFINISHED = "new-"
_HEAD = 4
"""Bytes with the number of dimensions, at the beginning of the journal."""
_BLOCK = 16
_SEARCHED_TOGETHER = 65_536
"""Vectors that are turned into 32-bit numbers at once."""
_KEPT_WIDE = 2 * _SEARCHED_TOGETHER
"""Vectors that are kept as 32-bit numbers (200 MB) so that memory does not grow with the corpus."""


@dataclass(frozen=True, slots=True)
class PassageVectors:
    """The vectors of the passages of an index, found again by their keys."""

    keys: NDArray[np.int64]
    vectors: NDArray[np.float16]
    allowed: NDArray[np.bool_] | None = None
    _wide: dict[int, NDArray[np.float32]] = field(default_factory=dict, repr=False, compare=False)
    """The blocks that are kept as 32-bit numbers, by where they begin."""

    def limited_to(self, keys: Sequence[int]) -> PassageVectors:
        """Return the same vectors, of which a search returns those of these passages alone."""
        return replace(self, allowed=np.isin(self.keys, np.array(keys, np.int64)))

    def nearest(self, vector: NDArray[np.float32], k: int) -> tuple[list[int], list[float]]:
        """Return the places of the k nearest passages, nearest first, with their cosines; equal ones by key."""
        if not len(self.keys) or not k:
            return [], []
        cosines = np.empty(len(self.keys), np.float32)
        for low in range(0, len(self.keys), _SEARCHED_TOGETHER):
            block = self._wide.get(low)
            if block is None:
                block = self.vectors[low : low + _SEARCHED_TOGETHER].astype(np.float32)
                if low < _KEPT_WIDE:
                    self._wide[low] = block
            np.matmul(block, vector, out=cosines[low : low + len(block)])
        if self.allowed is not None:
            cosines[~self.allowed] = -np.inf
            k = min(k, int(self.allowed.sum()))
            if not k:
                return [], []
        k = min(k, len(cosines))
        # All that are as near as the last one are looked at so that ties do not depend on the order of indexing.
        cut = np.partition(cosines, len(cosines) - k)[len(cosines) - k]
        near = np.flatnonzero(cosines >= cut)
        near = near[np.lexsort((self.keys[near], -cosines[near]))][:k]
        return near.tolist(), cosines[near].tolist()


def open_vectors(index: Bm25Index, model: EmbeddingModel, cache: Path) -> tuple[PassageVectors, list[str]]:
    """Return the vectors of all passages of an index, with their ids; make what is missing and keep it in the cache."""
    ids = {key: passage_id for block in index.read_rows() for key, passage_id, *_ in block}
    folder = cache / "vectors" / hashlib.sha256(model.name.encode()).hexdigest()[:16] / index.fingerprint
    vectors = _read(folder)
    if vectors is None:
        _make(index, model, folder)
        vectors = _read(folder)
        assert vectors is not None
    return vectors, [ids[key] for key in vectors.keys.tolist()]


def _read(folder: Path) -> PassageVectors | None:
    """Map the vectors in a folder; None if they are missing or damaged."""
    try:
        keys, vectors = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("keys", "vectors"))
    except (OSError, ValueError, EOFError):
        return None
    return PassageVectors(keys, vectors) if len(keys) == len(vectors) else None


def _make(index: Bm25Index, model: EmbeddingModel, folder: Path) -> None:
    """Make the vectors in a folder unless they are there."""
    base = folder.parent
    base.mkdir(parents=True, exist_ok=True)
    with hold_lock(base / "lock"):
        if _read(folder) is not None:
            return
        for leftover in base.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        journal = base / "made"
        known = [held for held in (_read_newest(base), _read_journal(journal)) if held is not None]
        seen = {key for held in known for key in held.keys.tolist()}
        keys = []
        for rows in index.read_rows():
            keys += [row.key for row in rows]
            missing = [row for row in rows if row.key not in seen]
            for low in range(0, len(missing), _BLOCK):
                block = missing[low : low + _BLOCK]
                vectors = model.embed([_searched_text(row) for row in block])
                _append(journal, [row.key for row in block], vectors.astype(np.float16))
        _write(folder, np.sort(np.array(keys, np.int64)), [*known, _read_journal(journal)])
        journal.unlink(missing_ok=True)


def _searched_text(row: PassageRow) -> str:
    return f"{row.title}. {row.text}" if row.title else row.text


def _read_newest(base: Path) -> PassageVectors | None:
    """Map the newest vectors of an earlier state of the corpus, or of another one."""
    folders = [each for each in base.glob("*") if each.is_dir() and not each.name.startswith(_UNFINISHED)]
    return next(map(_read, sorted(folders, key=lambda each: -each.stat().st_mtime)), None)


def _write(folder: Path, keys: NDArray[np.int64], known: Sequence[PassageVectors]) -> None:
    """Write the vectors of these keys beside their place, and rename the folder."""
    dimensions = max((held.vectors.shape[1] for held in known), default=0)
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=folder.parent, ignore_cleanup_errors=True) as beside:
        fresh = Path(beside) / "vectors"
        fresh.mkdir()
        np.save(fresh / "keys.npy", keys)
        shape = (len(keys), dimensions)
        vectors = np.lib.format.open_memmap(fresh / "vectors.npy", mode="w+", dtype=np.float16, shape=shape)
        for held in known:
            places = np.searchsorted(keys, held.keys).clip(max=len(keys) - 1)
            wanted = np.flatnonzero(keys[places] == held.keys)
            for low in range(0, len(wanted), _SEARCHED_TOGETHER):
                part = wanted[low : low + _SEARCHED_TOGETHER]
                vectors[places[part]] = held.vectors[part]
        vectors.flush()
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    sync_folder(folder.parent)


def _read_journal(path: Path) -> PassageVectors:
    """Map the vectors that an unfinished run has made, and cut off what a kill left of a last one."""
    path.touch()
    with path.open("rb") as file:
        head = file.read(_HEAD)
    kind = _record(int.from_bytes(head, "little"))
    count = (path.stat().st_size - _HEAD) // kind.itemsize if len(head) == _HEAD else 0
    if not count:
        path.unlink(missing_ok=True)
        return PassageVectors(np.zeros(0, np.int64), np.zeros((0, 0), np.float16))
    os.truncate(path, _HEAD + count * kind.itemsize)
    records = np.memmap(path, kind, "r", _HEAD, count)
    return PassageVectors(records["key"], records["vector"])


def _append(path: Path, keys: Sequence[int], vectors: NDArray[np.float16]) -> None:
    records = np.zeros(len(keys), _record(vectors.shape[1]))
    records["key"], records["vector"] = keys, vectors
    with path.open("ab") as file:
        if not file.tell():
            file.write(vectors.shape[1].to_bytes(_HEAD, "little"))
        file.write(records.tobytes())
        # A loss of power must not leave a hole before a later block.
        file.flush()
        os.fsync(file.fileno())


def _record(dimensions: int) -> np.dtype[np.void]:
    return np.dtype([("key", "<i8"), ("vector", "<f2", (dimensions,))])
