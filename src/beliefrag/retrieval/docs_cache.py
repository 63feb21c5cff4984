"""An index for documents that somebody just points at, kept in the cache and refreshed on every use."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from beliefrag.retrieval.engine import Bm25Index
from beliefrag.retrieval.indexing import index_paths
from beliefrag.retrieval.ledger import IndexUnusable
from beliefrag.retrieval.report import IndexReport, OnProgress
from beliefrag.retrieval.session import IndexBusy

__all__ = ["docs_index", "docs_index_path"]

_PATIENCE = 120.0


def docs_index_path(paths: Iterable[str | Path], cache: str | Path) -> Path:
    """Gives the place in the cache that belongs to these documents, in whatever order and spelling they are named."""
    resolved = sorted({os.path.realpath(path) for path in paths})
    key = hashlib.sha256(b"\0".join(os.fsencode(path) for path in resolved)).hexdigest()[:32]
    return Path(cache) / "indexes" / key


def docs_index(
    paths: Iterable[str | Path], cache: str | Path, *, progress: OnProgress | None = None
) -> tuple[Bm25Index, IndexReport]:
    """Opens an up-to-date index of some documents, building it the first time and reading only changes later.

    When another process is refreshing the same documents, this one waits for it. An index in the cache that is damaged
    or of an older version is built anew, since it can be.

    Args:
        paths: Files and folders.
        cache: The cache directory.
        progress: Called while files are read.

    Returns:
        The index, and what was done to it.

    Raises:
        CorpusError: The documents cannot be read, or the cache cannot be written.
    """
    documents = list(paths)
    place = docs_index_path(documents, cache)
    deadline = time.monotonic() + _PATIENCE
    rebuilt = False
    while True:
        try:
            report = index_paths(documents, place, progress=progress)
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
