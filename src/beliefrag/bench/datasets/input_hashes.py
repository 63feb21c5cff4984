"""Notes every published file that an import opens, so that a card can name all that its dataset was made of.

A reader may open files that nobody named: those of a folder, or those that a record points to. The hash is that of the
very bytes that were read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from beliefrag.bench.card import FileRecord

__all__ = ["input_records", "noted_files", "read_noted"]

_LISTED = 100
"""Files of one folder that a card lists one by one: TriviaQA's evidence has hundreds of thousands."""

_noted: ContextVar[dict[Path, FileRecord] | None] = ContextVar("files that an import has opened", default=None)


@contextmanager
def noted_files() -> Iterator[Mapping[Path, FileRecord]]:
    """The files that are opened within, in the order in which they are."""
    found: dict[Path, FileRecord] = {}
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def read_noted(path: Path) -> bytes:
    """The content of a file, as it is. Every file of a published form is read through this.

    Raises:
        OSError: It cannot be read.
    """
    content = path.read_bytes()
    found = _noted.get()
    if found is not None and path.absolute() not in found:
        digest = hashlib.sha256(content).hexdigest()
        found[path.absolute()] = FileRecord(name=path.name, sha256=digest, bytes=len(content))
    return content


def input_records(noted: Mapping[Path, FileRecord], given: Sequence[Path]) -> tuple[FileRecord, ...]:
    """What a card says of the files that were opened: each of them, or all of a large folder as one.

    Args:
        noted: The files.
        given: What the user named: files and folders.
    """
    left = dict(noted)
    merged: list[FileRecord] = []
    for folder in (path for path in given if path.is_dir()):
        roots = (folder.absolute(), folder.resolve())
        within = {
            path.relative_to(root).as_posix(): path for root in roots for path in left if path.is_relative_to(root)
        }
        if len(within) > _LISTED:
            merged.append(_as_one(folder, {name: left[path] for name, path in within.items()}))
            left = {path: record for path, record in left.items() if path not in within.values()}
    return (*left.values(), *merged)


def _as_one(folder: Path, records: Mapping[str, FileRecord]) -> FileRecord:
    """A folder's files under one hash: that of the lines `sha256  name`, sorted by name, as `sha256sum` writes them."""
    lines = "".join(f"{records[name].sha256}  {name}\n" for name in sorted(records))
    return FileRecord(
        name=folder.resolve().name,
        sha256=hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest(),
        bytes=sum(record.bytes for record in records.values()),
        files=len(records),
    )
