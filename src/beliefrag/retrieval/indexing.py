"""Makes an index from files, and keeps it up to date with them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from beliefrag.errors import CorpusError
from beliefrag.retrieval.files import Skipped, find_files
from beliefrag.retrieval.names import printable
from beliefrag.retrieval.readers import FORMATS
from beliefrag.retrieval.refresh import Refresh
from beliefrag.retrieval.report import IndexProgress, IndexReport, OnProgress
from beliefrag.retrieval.writer import IndexWriter

__all__ = ["EmptyCorpus", "index_paths"]


class EmptyCorpus(CorpusError):
    """Nothing in the given paths could be read."""


def index_paths(paths: Iterable[str | Path], out: str | Path, *, progress: OnProgress | None = None) -> IndexReport:
    """Indexes all documents below some paths, and can be run again at any time to take in what changed.

    A file whose content is the same is not read again; the passages of a changed file are exchanged; those of a file
    that lay below one of the paths and is gone are removed. Work is committed as it goes: a run that was killed is
    completed by the next one, with the same result as one that was not.

    Args:
        paths: Files and folders. `readers.FORMATS` says which formats are read.
        out: The index directory, made if it is not there.
        progress: Called as the work goes on.

    Raises:
        EmptyCorpus: Nothing can be read; an index that was there before stays as it was.
        CorpusError: A path does not exist, or the index cannot be written.
    """
    began = time.monotonic()
    target = Path(out)
    given = [Path(path) for path in paths]
    found = find_files(given, leave_out=target)
    made_here = not target.exists()
    try:
        with IndexWriter(target) as writer:
            work = Refresh(writer, found, progress or _silent)
            work.run()
            if not len(writer):
                raise _empty(given, work.skipped)
            writer.compact()
            total, fingerprint = len(writer), writer.fingerprint
    except EmptyCorpus:
        if made_here:
            shutil.rmtree(target, ignore_errors=True)
        raise
    return IndexReport(
        files_read=work.read,
        files_unchanged=work.unchanged,
        files_removed=work.removed,
        skipped=tuple(work.skipped),
        passages_added=work.passages_added,
        passages_removed=work.passages_removed,
        passages_total=total,
        seconds=time.monotonic() - began,
        fingerprint=fingerprint,
    )


def _silent(progress: IndexProgress) -> None:
    pass


def _empty(given: list[Path], skipped: list[Skipped]) -> EmptyCorpus:
    places = ", ".join(map(printable, given)) or "no path at all"
    named = [f"{item.path} {item.reason}" for item in skipped[:5]]
    further = [f"and {len(skipped) - 5} more"] if len(skipped) > 5 else []
    detail = f" Skipped: {'; '.join(named + further)}." if skipped else ""
    return EmptyCorpus(
        f"There is nothing to index in {places}.{detail}",
        remedy=f"Give files or folders with documents in one of these formats: {', '.join(FORMATS)}.",
    )
