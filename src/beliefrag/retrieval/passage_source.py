"""Where the passages of a retriever come from: documents, an index folder, or passages in memory."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from beliefrag.errors import SettingsError
from beliefrag.paths import cache_dir
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.indexing import IndexReport, OnProgress, Paths, index_paths, list_paths, upgrade_index
from beliefrag.retrieval.ledger import IndexUnusable
from beliefrag.retrieval.session import IndexBusy
from beliefrag.retrieval.text import printable_path
from beliefrag.types import Passage

__all__ = ["PassageSource", "docs_index", "docs_index_path"]

_WAIT_SECONDS = 120.0


class PassageSource:
    """The passages that a retriever searches, or none at all for an engine elsewhere.

    A retriever takes from it what it needs. The index is opened when it is first asked for, and only once: a retriever
    that wraps BM25 and one that reads every passage share it.

    Args:
        docs: Files and folders; their index is kept in the cache and refreshed.
        index: A folder that `beliefrag index` made.
        passages: Passages to hold in memory.
        progress: Called while documents are read.

    Raises:
        SettingsError: More than one of `docs`, `index` and `passages` was given.
    """

    def __init__(
        self,
        *,
        docs: Paths | None = None,
        index: str | Path | None = None,
        passages: Iterable[Passage] | None = None,
        progress: OnProgress | None = None,
    ) -> None:
        given = sum(each is not None for each in (docs, index, passages))
        if given > 1:
            raise SettingsError(
                f"Needs one source of passages, and {given} were given.",
                remedy="Name documents, or an index made with 'beliefrag index'.",
            )
        self._docs = None if docs is None else list_paths(docs)
        self._index = None if index is None else Path(index)
        self._passages = passages
        self._progress = progress
        self._opened: Bm25Index | None = None
        self.report: IndexReport | None = None
        """What was read and what was skipped, once the documents were read."""

    def __str__(self) -> str:
        if self._docs is not None:
            return f"the documents {', '.join(map(printable_path, self._docs))}"
        return f"the index {printable_path(self._index)}" if self._index is not None else "the passages"

    @property
    def is_given(self) -> bool:
        """Whether there are any passages here."""
        return not (self._docs is None and self._index is None and self._passages is None)

    @property
    def is_used(self) -> bool:
        """Whether a retriever has opened the index."""
        return self._opened is not None

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the passages, once they are opened."""
        return self._opened.fingerprint if self._opened else None

    @property
    def folder(self) -> Path | None:
        """The folder of the index, beside which a retriever may keep files of its own; None for passages in memory."""
        return docs_index_path(self._docs, cache_dir()) if self._docs is not None else self._index

    def open_index(self) -> Bm25Index:
        """Gives the passages as a BM25 index, which also holds them all.

        Raises:
            SettingsError: There are no passages here.
            CorpusError: The documents or the index cannot be used.
        """
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def upgrade_index(self) -> Bm25Index | None:
        """Brings the index of documents up to what this version makes, and opens it again.

        Returns:
            The index, or None where it is not ours to change: an index that the user named, or passages in memory.
        """
        folder = self.folder
        if self._docs is None or folder is None:
            return None
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                upgrade_index(folder)
                break
            except IndexBusy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        self._opened = Bm25Index.open(folder)
        return self._opened

    def _open(self) -> Bm25Index:
        if self._passages is not None:
            return Bm25Index.in_memory(self._passages)
        if self._index is not None:
            return Bm25Index.open(self._index)
        if self._docs is not None:
            index, self.report = docs_index(self._docs, cache_dir(), progress=self._progress)
            return index
        raise SettingsError(
            "Needs one source of passages, and none were given.",
            remedy="Name documents, or an index made with 'beliefrag index'.",
        )


def docs_index_path(paths: Iterable[str | Path], cache: str | Path) -> Path:
    """Gives the place in the cache that belongs to these documents, in whatever order and spelling they are named."""
    resolved = sorted({os.path.realpath(path) for path in paths})
    key = hashlib.sha256(b"\0".join(os.fsencode(path) for path in resolved)).hexdigest()[:32]
    return Path(cache) / "indexes" / key


def docs_index(
    paths: Iterable[str | Path], cache: str | Path, *, progress: OnProgress | None = None, on: str | None = None
) -> tuple[Bm25Index, IndexReport]:
    """Opens an up-to-date index of some documents, building it the first time and reading only changes later.

    When another process is refreshing the same documents, this one waits for it. An index in the cache that is damaged
    or of an older version is built anew, since it can be.

    Args:
        paths: Files and folders.
        cache: The cache directory.
        progress: Called while files are read.
        on: `ray` or `ray:ADDRESS`, to read on the workers of a Ray cluster.

    Returns:
        The index, and what was done to it.

    Raises:
        CorpusError: The documents cannot be read, or the cache cannot be written.
    """
    documents = list(paths)
    place = docs_index_path(documents, cache)
    deadline = time.monotonic() + _WAIT_SECONDS
    rebuilt = False
    while True:
        try:
            report = index_paths(documents, place, progress=progress, names=False, on=on)
            return Bm25Index.open(place), report
        except IndexBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        except IndexUnusable:
            if rebuilt:
                raise
            shutil.rmtree(place, ignore_errors=True)
            rebuilt = True
