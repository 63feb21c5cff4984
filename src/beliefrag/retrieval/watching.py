"""Notices changes of documents, or of an index."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import watchfiles

from beliefrag.retrieval.store import MANIFEST

_MILLISECONDS = 1_000
_INDEX_DEPTH = 2


def watch_paths(paths: Sequence[Path], stop: threading.Event | None = None, *, index: bool = False) -> Iterator[None]:
    """Yield once at the beginning, and whenever something has changed below the paths; what is missing is waited for.

    Hidden files are passed over, and so are indexes that lie among documents; with `index`, the paths are indexes.
    """

    def matters(_: watchfiles.Change, name: str) -> bool:
        path = Path(name)
        if path.name[:1] in {".", "~"} or path.suffix == ".lock":
            return False  # an index is locked even to be read
        return index or not any((folder / MANIFEST).exists() for folder in list(path.parents)[:_INDEX_DEPTH])

    stop, was_there = stop or threading.Event(), True
    while not stop.is_set():
        is_there = all(path.exists() for path in paths)
        if not is_there:
            if was_there:
                yield
            was_there = False
            stop.wait(_MILLISECONDS / 1000)
            continue
        was_there = True
        is_first = True
        for changes in watchfiles.watch(
            *paths, watch_filter=matters, stop_event=stop, rust_timeout=_MILLISECONDS, yield_on_timeout=True
        ):
            if changes or is_first:
                yield
            is_first = False
            if not all(path.exists() for path in paths):
                break
