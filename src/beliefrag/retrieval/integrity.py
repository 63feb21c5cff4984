"""Whether the files of an index are what was written: for `beliefrag doctor`, because opening an index reads little."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from pathlib import Path

from beliefrag.retrieval.ledger import read_snapshot
from beliefrag.retrieval.linked.arrays import ArrayFolder

__all__ = ["find_damage"]

_FOOTER_MAGIC = 1337
"""The last number of each file that tantivy writes."""


def find_damage(index: Path) -> str | None:
    """Reads each file of an index, and gives the first that is not what was written; None if there is no such file.

    Raises:
        CorpusError: There is no index, or its ledger is damaged.
    """
    snapshot = read_snapshot(index)
    for file in sorted(snapshot.store.iterdir()):
        # A writer may remove a segment in the meantime.
        with contextlib.suppress(FileNotFoundError):
            if file.suffix not in ("", ".json", ".lock") and not _has_right_checksum(file):
                return f"{snapshot.store.name}/{file.name}"
    vectors = (each for each in index.glob("vectors/*/*") if each.is_dir() and not each.name.startswith("new-"))
    for folder in [*sorted(index.glob("names-*")), *sorted(vectors)]:
        try:
            damaged = ArrayFolder(folder).find_damaged_file()
        except (OSError, ValueError, KeyError):
            damaged = "its header"
        if damaged:
            return f"{folder.relative_to(index)}/{damaged}"
    return None


def _has_right_checksum(file: Path) -> bool:
    """Compares a file with the checksum in its footer, which tantivy writes but does not read by itself."""
    content = file.read_bytes()
    length, magic = struct.unpack("<II", content[-8:]) if len(content) >= 8 else (0, 0)
    end = len(content) - 8 - length
    if magic != _FOOTER_MAGIC or end < 0:
        return False
    try:
        return bool(json.loads(content[end : end + length])["crc"] == zlib.crc32(content[:end]))
    except (ValueError, KeyError, TypeError):
        return False
