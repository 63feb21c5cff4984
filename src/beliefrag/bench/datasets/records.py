"""Reads published files record by record, and tells where each record stands.

A record that cannot be read becomes a `Problem` with its line or number, never silence. JSON, JSON Lines and
delimited tables are told apart by what is in the file, because published names mislead: RGB's `.json` holds lines.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.input_hashes import read_noted
from beliefrag.runs.errors import DataError

__all__ = ["Problem", "Record", "plain_name", "read_bytes", "read_json_lines", "read_records", "read_table"]

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_SHOWN = 60
"""Characters of a column's name that are told."""
_TOO_LONG = 100_000_000
"""Characters that one cell of a table may have."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record, and where it stands in which file."""

    place: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that cannot be used, where it stands, and why."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def plain_name(path: Path) -> str:
    """The file's name without `.gz`."""
    return path.name.removesuffix(".gz")


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if it is a gzip file, without a byte order mark.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        content = read_noted(path)
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"{path} cannot be read: {reason}.", remedy="Check the name, or download it again.") from None
    return content.removeprefix(_BOM)


def read_records(path: Path) -> Iterator[Record | Problem]:
    """The records of a JSON or JSON Lines file: a list of objects, an object with the list under `Data`, or lines.

    Raises:
        DataError: The file cannot be read, or holds something else altogether.
    """
    content = read_bytes(path)
    first = next((line for line in content.split(b"\n") if line.strip()), b"")
    if not first:
        raise DataError(f"{path.name} is empty.", remedy="Download it again.")
    head = _json(first)
    if isinstance(head, dict) and "Data" not in head:
        yield from _lines(content, path.name)
        return
    whole = _json(content)
    if isinstance(whole, dict) and isinstance(whole.get("Data"), list):
        whole = whole["Data"]
    if isinstance(whole, list):
        for number, data in enumerate(whole, 1):
            place = f"{path.name} record {number}"
            yield Record(place, data) if isinstance(data, dict) else Problem(place, "is not a JSON object")
        return
    if isinstance(whole, ValueError) and not first.lstrip().startswith(b"["):
        # A file of lines whose first one is broken: the others may still be read.
        found = list(_lines(content, path.name))
        if any(isinstance(record, Record) for record in found):
            yield from found
            return
    reason = f": {whole}" if isinstance(whole, ValueError) else ""
    raise DataError(f"{path.name} is neither a JSON list nor JSON Lines{reason}.", remedy="Download it again.")


def read_json_lines(path: Path) -> Iterator[Record | Problem]:
    """The records of a file with one JSON object per line."""
    yield from _lines(read_bytes(path), path.name)


def read_table(path: Path, *, delimiter: str, needs: str | None = None) -> Iterator[Record | Problem]:
    """The rows of a delimited table by the names in its first line.

    Args:
        path: The file.
        delimiter: Stands between columns.
        needs: A column without which no row can be used.

    Raises:
        DataError: The file is not text in UTF-8, or has no first line, or lacks that column.
    """
    content = read_bytes(path)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"{path.name} line {line} is not UTF-8 text.", remedy="Is this the right file?") from None
    csv.field_size_limit(_TOO_LONG)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = next(rows, None)
        if not names:
            raise DataError(f"{path.name} is empty.", remedy="Download it again.")
        if needs is not None and needs not in names:
            found = ", ".join(repr(name[:_SHOWN]) for name in names)
            raise DataError(f"{path.name} has no column {needs!r}: its columns are {found[: 4 * _SHOWN]}.")
        for row in rows:
            place = f"{path.name} line {rows.line_num}"
            if len(row) == len(names):
                yield Record(place, dict(zip(names, row, strict=True)))
            elif row:
                yield Problem(place, f"has {len(row)} columns, not {len(names)}")
    except csv.Error as error:
        raise DataError(
            f"{path.name} line {rows.line_num} is no table: {error}.", remedy="Download it again."
        ) from None


def _lines(content: bytes, name: str) -> Iterator[Record | Problem]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        data, place = _json(line), f"{name} line {number}"
        if isinstance(data, dict):
            yield Record(place, data)
        else:
            yield Problem(place, f"is not JSON ({data})" if isinstance(data, ValueError) else "is not a JSON object")


def _json(content: bytes) -> Any:
    """The value, or the error as a value: a broken line is something to report, not to stop at."""
    try:
        return json.loads(content)
    except UnicodeDecodeError:
        return ValueError("not UTF-8 text")
    except RecursionError:
        return ValueError("nested too deeply")
    except ValueError as error:
        return error
