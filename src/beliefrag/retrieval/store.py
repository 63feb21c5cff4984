"""The directory in which tantivy keeps its segments: making it, opening it, and saying in words what went wrong."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tantivy

from beliefrag.errors import BeliefRAGError
from beliefrag.retrieval.schema import index_schema

__all__ = [
    "create_store",
    "dead_passages",
    "engine_errors",
    "is_denied",
    "open_searcher",
    "open_store",
    "opstamp",
    "sync_folder",
]


@contextmanager
def engine_errors(kind: type[BeliefRAGError], message: str, *, remedy: str) -> Iterator[None]:
    """Turns whatever the engine raises inside into one error of ours.

    Args:
        kind: The error to raise.
        message: What could not be done, without a full stop; the engine's own words follow it.
        remedy: What to do next.
    """
    try:
        yield
    except BeliefRAGError:
        raise
    except (OSError, RuntimeError, ValueError, KeyError) as problem:
        raise kind(f"{message}: {_one_line(problem)}", remedy=remedy) from problem
    except BaseException as problem:
        # On a damaged file tantivy may panic; that arrives as a BaseException whose class cannot be imported.
        if type(problem).__name__ != "PanicException":
            raise
        raise kind(f"{message}: {_one_line(problem)}", remedy=remedy) from problem


def create_store(store: Path) -> None:
    """Makes an empty store, whole or not at all; does nothing when it is there already.

    It is made beside its place and renamed, so that two processes which create an index at the same moment can never
    empty one that the other has already filled.
    """
    if store.exists():
        return
    with tempfile.TemporaryDirectory(prefix="new-", dir=store.parent, ignore_cleanup_errors=True) as beside:
        fresh = Path(beside) / "store"
        fresh.mkdir()
        tantivy.Index(index_schema(), path=str(fresh))
        try:
            fresh.rename(store)
        except OSError:
            if not store.exists():
                raise


def open_store(store: Path) -> tantivy.Index:
    """Opens an existing store for writing or reading."""
    return tantivy.Index.open(str(store))


def open_searcher(store: Path) -> tuple[tantivy.Searcher, tantivy.Schema]:
    """Gives a view of the store as it is now, which later commits do not change.

    Tantivy takes a lock file even to read. Where the directory is read-only (a container image, somebody else's
    index), it is opened through a passing folder of links; the segments themselves are mapped from where they lie.
    """
    try:
        index = open_store(store)
    except ValueError as problem:
        if not is_denied(problem):
            raise
        with tempfile.TemporaryDirectory(prefix="beliefrag-") as links:
            for file in store.iterdir():
                if not file.name.endswith(".lock"):
                    (Path(links) / file.name).symlink_to(file.resolve())
            index = open_store(Path(links))
            return index.searcher(), index.schema
    return index.searcher(), index.schema


def is_denied(problem: ValueError) -> bool:
    """Says whether tantivy failed because it may not write where the store lies."""
    return "PermissionDenied" in str(problem) or "ReadOnlyFilesystem" in str(problem)


def sync_folder(folder: Path) -> None:
    """Makes a rename within a folder survive a loss of power, where the system can promise that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def opstamp(store: Path) -> int:
    """Gives the number of the last commit: it grows with every commit, and with nothing else."""
    return int(_meta(store)["opstamp"])


def dead_passages(store: Path) -> int:
    """Gives how many deleted passages the segments still carry, and count in their statistics."""
    return sum(int((segment["deletes"] or {}).get("num_deleted_docs", 0)) for segment in _meta(store)["segments"])


def _meta(store: Path) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads((store / "meta.json").read_text("utf-8"))
    return meta


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:300] or type(problem).__name__
