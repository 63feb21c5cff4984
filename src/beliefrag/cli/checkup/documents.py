"""The documents and the index that somebody named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from beliefrag.cli.checkup.finding import Finding, State, fine, problem, warning
from beliefrag.errors import BeliefRAGError
from beliefrag.paths import cache_dir
from beliefrag.retrieval import Bm25Index, docs_index_path
from beliefrag.retrieval.files import find_files

__all__ = ["check_documents"]


def check_documents(docs: Sequence[Path], index: Path | None) -> Iterator[Finding]:
    """Whether the documents can be found, and the index be opened. Nothing is read or indexed."""
    if docs:
        yield _documents(docs)
    if index is not None:
        yield _index(index)


def _documents(docs: Sequence[Path]) -> Finding:
    try:
        found = find_files(docs, leave_out=docs_index_path(docs, cache_dir()))
    except BeliefRAGError as error:
        return problem("documents", error)
    if not found.files:
        return Finding(State.PROBLEM, "documents", "no file of a format that is read", "Name other files or folders.")
    detail = f"{len(found.files):,} file{'' if len(found.files) == 1 else 's'}"
    if found.skipped:
        first = found.skipped[0]
        detail += f", {len(found.skipped):,} skipped (first: {first.path} {first.reason})"
        return warning("documents", detail, "'beliefrag index' lists all that is skipped.")
    return fine("documents", detail)


def _index(index: Path) -> Finding:
    try:
        opened = Bm25Index.open(index)
    except BeliefRAGError as error:
        return problem("index", error)
    if not len(opened):
        return Finding(State.PROBLEM, "index", f"{index} is empty", "Build it with 'beliefrag index'.")
    return fine("index", f"{index}, {len(opened):,} passages, fingerprint {opened.fingerprint}")
