"""The vectors of a corpus, kept in the cache or in the folder of its index, under the fingerprint of its passages.

In both places they lie in `vectors`, then in a folder for the model, then in one for the fingerprint. They are sorted
by the keys of the passages, so the same passages give the same bytes in whatever order an index holds them.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.file_lock import hold_lock
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.dense.embedding_model import EmbeddingModel, searched_text
from beliefrag.retrieval.dense.vector_journal import VectorJournal
from beliefrag.retrieval.linked.graph import Arrays, write_arrays
from beliefrag.retrieval.passage_store import PassageRow

__all__ = ["OnVectors", "PassageVectors", "open_vectors", "write_vectors"]

OnVectors = Callable[[int], None]
"""Called with the number of passages whose vectors there are so far."""

_FORMAT = 1
_UNFINISHED = "new-"
"""What a folder is called that `write_arrays` has not finished."""
_BLOCK = 16
"""Passages that are embedded before they are written down; a worker of a cluster takes as many at a time."""
_SEARCHED_TOGETHER = 65_536
"""Vectors that are turned into 32-bit numbers at once."""
_KEPT_WIDE = 2 * _SEARCHED_TOGETHER
"""So many vectors are kept as 32-bit numbers (200 MB), because turning them takes five times as long as comparing them.
Of more, the rest is turned at each search, so that memory does not grow with the corpus."""


@dataclass(frozen=True, slots=True)
class PassageVectors:
    """The vectors of the passages of an index, found again by their keys."""

    keys: NDArray[np.int64]
    vectors: NDArray[np.float16]
    _wide: dict[int, NDArray[np.float32]] = field(default_factory=dict, repr=False, compare=False)
    """The blocks that are kept as 32-bit numbers, by where they begin."""

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
            block = self._wide.get(low)
            if block is None:
                block = self.vectors[low : low + _SEARCHED_TOGETHER].astype(np.float32)
                if low < _KEPT_WIDE:
                    self._wide[low] = block
            np.matmul(block, vector, out=cosines[low : low + len(block)])
        k = min(k, len(cosines))
        # All that are as near as the last one are looked at, so that ties do not depend on the order of indexing.
        cut = np.partition(cosines, len(cosines) - k)[len(cosines) - k]
        near = np.flatnonzero(cosines >= cut)
        near = near[np.lexsort((self.keys[near], -cosines[near]))][:k]
        return near.tolist(), cosines[near].tolist()


def open_vectors(
    index: Bm25Index, model: EmbeddingModel, cache: Path, *, beside: Path | None = None
) -> tuple[PassageVectors, list[str]]:
    """Gives the vectors of all passages of an index, with their ids; made once, and then read from the cache.

    Vectors that an earlier state of the corpus has are used again, so a change costs what changed, and so are those of
    a process that was killed on the way.

    Args:
        index: The passages.
        model: Makes vectors; those of another model are not used.
        cache: The folder of the cache.
        beside: The folder of the index, where `beliefrag index --vectors` has put them.
    """
    ids = {key: passage_id for block in index.read_rows() for key, passage_id, *_ in block}
    bases = [_models_folder(root, model) for root in (cache, beside) if root is not None]
    vectors = next((held for base in bases if (held := _read(base / index.fingerprint)) is not None), None)
    if vectors is None:
        _make(index, model, bases[0], bases[1:])
        vectors = _read(bases[0] / index.fingerprint)
    if vectors is None:
        vectors = _in_memory(index, model)
    return vectors, [ids[key] for key in vectors.keys.tolist()]


def write_vectors(
    index: Bm25Index, model: EmbeddingModel, folder: Path, cache: Path, on_progress: OnVectors | None = None
) -> bool:
    """Makes the vectors of an index in its own folder unless they are there, and says whether they were made.

    Those of earlier states of the index are removed.

    Args:
        index: The passages.
        model: Makes vectors, in this process or on workers.
        folder: The folder of the index.
        cache: The folder of the cache, whose vectors are used again.
        on_progress: Called with the number of passages whose vectors there are so far.
    """
    base = _models_folder(folder, model)
    made = _make(index, model, base, [_models_folder(cache, model)], on_progress)
    for old in base.iterdir():
        if old.is_dir() and old.name != index.fingerprint:
            # A reader that has mapped the old files keeps them until it closes.
            shutil.rmtree(old, ignore_errors=True)
    return made


def _models_folder(root: Path, model: EmbeddingModel) -> Path:
    return root / "vectors" / hashlib.sha256(model.name.encode()).hexdigest()[:16]


def _make(
    index: Bm25Index,
    model: EmbeddingModel,
    base: Path,
    others: Sequence[Path],
    on_progress: OnVectors | None = None,
) -> bool:
    """Makes the vectors below a folder unless they are there, and says whether they were made."""
    base.mkdir(parents=True, exist_ok=True)
    folder = base / index.fingerprint
    with hold_lock(base / "lock"):
        if _read(folder) is not None:
            return False
        for leftover in base.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        journal = VectorJournal(base / "made")
        known: dict[int, NDArray[np.float16]] = {}
        for each in (*others, base):
            known |= _known_vectors(each, index.fingerprint)
        known |= journal.read()
        write_arrays(
            folder,
            _FORMAT,
            lambda arrays: _write(arrays, index, model, known, journal=journal, on_progress=on_progress),
        )
        journal.remove()
    return True


def _in_memory(index: Bm25Index, model: EmbeddingModel) -> PassageVectors:
    arrays = Arrays()
    _write(arrays, index, model, {})
    return PassageVectors.read(arrays)


def _read(folder: Path) -> PassageVectors | None:
    try:
        return PassageVectors.read(Arrays.open(folder, _FORMAT))
    except (OSError, ValueError, KeyError):
        return None


def _known_vectors(base: Path, fingerprint: str) -> dict[int, NDArray[np.float16]]:
    """Gives the vectors of the corpus, or else of the newest earlier state that is there, by key."""
    if not base.is_dir():
        return {}
    folders = [each for each in base.iterdir() if each.is_dir() and not each.name.startswith(_UNFINISHED)]
    folders.sort(key=lambda each: (each.name != fingerprint, -each.stat().st_mtime))
    for folder in folders[:1]:
        held = _read(folder)
        if held is not None:
            return dict(zip(held.keys.tolist(), held.vectors, strict=True))
    return {}


def _write(
    arrays: Arrays,
    index: Bm25Index,
    model: EmbeddingModel,
    known: Mapping[int, NDArray[np.float16]],
    *,
    journal: VectorJournal | None = None,
    on_progress: OnVectors | None = None,
) -> dict[str, Any]:
    count = 0
    for rows in index.read_rows():
        page = {row.key: known[row.key] for row in rows if row.key in known}
        for keys, vectors in _embed_rows([row for row in rows if row.key not in known], model):
            page |= zip(keys, vectors, strict=True)
            if journal:
                journal.append(keys, vectors)
            if on_progress:
                on_progress(count + len(page))
        arrays.append("read_keys", np.array([row.key for row in rows], np.int64))
        arrays.append("read_vectors", np.stack([page[row.key] for row in rows]).ravel())
        count += len(rows)
    _sort_by_key(arrays)
    return {"passages": count}


def _embed_rows(rows: Sequence[PassageRow], model: EmbeddingModel) -> Iterator[tuple[list[int], NDArray[np.float16]]]:
    blocks = [rows[low : low + _BLOCK] for low in range(0, len(rows), _BLOCK)]
    texts = ([searched_text(row.title, row.text) for row in block] for block in blocks)
    for block, vectors in zip(blocks, model.embed_blocks(texts), strict=True):
        yield [row.key for row in block], vectors.astype(np.float16)


def _sort_by_key(arrays: Arrays) -> None:
    keys = arrays.read("read_keys", np.int64)
    vectors = arrays.read("read_vectors", np.float16).reshape(len(keys), -1) if len(keys) else None
    order = np.argsort(keys)
    arrays.append("keys", keys[order])
    for low in range(0, len(order), _SEARCHED_TOGETHER):
        assert vectors is not None
        arrays.append("vectors", vectors[order[low : low + _SEARCHED_TOGETHER]].ravel())
    arrays.remove("read_keys")
    arrays.remove("read_vectors")
