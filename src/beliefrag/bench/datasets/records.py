"""Reads published files record by record, with the place of each record, and records which files were read.

A record that cannot be read becomes a `Problem` with its line or number. JSON, JSON Lines and tables are recognised by
what is in the file, because published names mislead: RGB's `.json` holds lines. Every file that an import reads is
recorded with its hash, also those that nobody named: the files of a folder, or those that a record refers to.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beliefrag.bench.questions import CardFile
from beliefrag.runs.run_errors import DataError

__all__ = [
    "Problem",
    "Record",
    "name_without_gz",
    "read_bytes",
    "read_input",
    "read_json_lines",
    "read_records",
    "read_table",
    "record_inputs",
    "summarise_inputs",
]

_MAX_LISTED = 100
"""Files of one folder that a card lists one by one: TriviaQA's evidence has hundreds of thousands."""

_inputs: ContextVar[dict[Path, CardFile] | None] = ContextVar("files that an import has read", default=None)


@contextmanager
def record_inputs() -> Iterator[Mapping[Path, CardFile]]:
    """Records every file that is read within a `with` block, in their order."""
    found: dict[Path, CardFile] = {}
    token = _inputs.set(found)
    try:
        yield found
    finally:
        _inputs.reset(token)


def read_input(path: Path) -> bytes:
    """Gives the bytes of a file, unchanged. Every published file is read through this function.

    Raises:
        OSError: It cannot be read.
    """
    content = path.read_bytes()
    found = _inputs.get()
    if found is not None and path.absolute() not in found:
        digest = hashlib.sha256(content).hexdigest()
        found[path.absolute()] = CardFile(name=path.name, sha256=digest, bytes=len(content))
    return content


def summarise_inputs(inputs: Mapping[Path, CardFile], given: Sequence[Path]) -> tuple[CardFile, ...]:
    """Gives what a card says about the files that were read: each file, or one entry for a large folder.

    Args:
        inputs: The files that were read.
        given: The files and folders that the user named.
    """
    left = dict(inputs)
    merged: list[CardFile] = []
    for folder in (path for path in given if path.is_dir()):
        roots = (folder.absolute(), folder.resolve())
        within = {
            path.relative_to(root).as_posix(): path for root in roots for path in left if path.is_relative_to(root)
        }
        if len(within) > _MAX_LISTED:
            merged.append(_merge_folder(folder, {name: left[path] for name, path in within.items()}))
            left = {path: record for path, record in left.items() if path not in within.values()}
    return (*left.values(), *merged)


def _merge_folder(folder: Path, records: Mapping[str, CardFile]) -> CardFile:
    """Gives one entry for a folder: the hash of the sorted lines `sha256  name`, as `sha256sum` writes them."""
    lines = "".join(f"{records[name].sha256}  {name}\n" for name in sorted(records))
    return CardFile(
        name=folder.resolve().name,
        sha256=hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest(),
        bytes=sum(record.bytes for record in records.values()),
        files=len(records),
    )


_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_MAX_NAME_SHOWN = 60
"""Characters of a column's name that a message shows."""
_MAX_CELL = 100_000_000
"""Characters that one cell of a table may have."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record, with its file and its line or number."""

    place: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that cannot be used, with its place and the reason."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def name_without_gz(path: Path) -> str:
    """Gives the file's name without `.gz`."""
    return path.name.removesuffix(".gz")


def read_bytes(path: Path) -> bytes:
    """Gives the bytes of a file, decompressed if it is a gzip file, without a byte order mark.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        content = read_input(path)
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"{path} cannot be read: {reason}.", remedy="Check the name, or download it again.") from None
    return content.removeprefix(_BOM)


def read_records(path: Path) -> Iterator[Record | Problem]:
    """Reads the records of a JSON or JSON Lines file: a list, an object with the list under `Data`, or lines.

    Raises:
        DataError: The file cannot be read, or holds something else.
    """
    content = read_bytes(path)
    first = next((line for line in content.split(b"\n") if line.strip()), b"")
    if not first:
        raise DataError(f"{path.name} is empty.", remedy="Download it again.")
    head = _parse_json(first)
    if isinstance(head, dict) and "Data" not in head:
        yield from _parse_lines(content, path.name)
        return
    whole = _parse_json(content)
    if isinstance(whole, dict) and isinstance(whole.get("Data"), list):
        whole = whole["Data"]
    if isinstance(whole, list):
        for number, data in enumerate(whole, 1):
            place = f"{path.name} record {number}"
            yield Record(place, data) if isinstance(data, dict) else Problem(place, "is not a JSON object")
        return
    if isinstance(whole, ValueError) and not first.lstrip().startswith(b"["):
        # A file of lines whose first one is broken: the others may still be read.
        found = list(_parse_lines(content, path.name))
        if any(isinstance(record, Record) for record in found):
            yield from found
            return
    reason = f": {whole}" if isinstance(whole, ValueError) else ""
    raise DataError(f"{path.name} is neither a JSON list nor JSON Lines{reason}.", remedy="Download it again.")


def read_json_lines(path: Path) -> Iterator[Record | Problem]:
    """Gives the records of a file with one JSON object per line."""
    yield from _parse_lines(read_bytes(path), path.name)


def read_table(path: Path, *, delimiter: str, required_column: str | None = None) -> Iterator[Record | Problem]:
    """Gives the rows of a delimited table by the names in its first line.

    Args:
        path: The file.
        delimiter: The character between columns.
        required_column: A column that every table must have.

    Raises:
        DataError: The file is not UTF-8 text, has no first line, or does not have that column.
    """
    content = read_bytes(path)
    try:
        content_text = content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"{path.name} line {line} is not UTF-8 text.", remedy="Is this the right file?") from None
    csv.field_size_limit(_MAX_CELL)
    rows = csv.reader(io.StringIO(content_text, newline=""), delimiter=delimiter)
    try:
        names = next(rows, None)
        if not names:
            raise DataError(f"{path.name} is empty.", remedy="Download it again.")
        if required_column is not None and required_column not in names:
            found = ", ".join(repr(name[:_MAX_NAME_SHOWN]) for name in names)
            raise DataError(
                f"{path.name} has no column {required_column!r}: its columns are {found[: 4 * _MAX_NAME_SHOWN]}."
            )
        for row in rows:
            place = f"{path.name} line {rows.line_num}"
            if len(row) == len(names):
                yield Record(place, dict(zip(names, row, strict=True)))
            elif row:
                yield Problem(place, f"has {len(row)} columns, not {len(names)}")
    except csv.Error as error:
        raise DataError(
            f"{path.name} line {rows.line_num} is not a table: {error}.", remedy="Download it again."
        ) from None


def _parse_lines(content: bytes, name: str) -> Iterator[Record | Problem]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        data, place = _parse_json(line), f"{name} line {number}"
        if isinstance(data, dict):
            yield Record(place, data)
        else:
            yield Problem(place, f"is not JSON ({data})" if isinstance(data, ValueError) else "is not a JSON object")


def _parse_json(content: bytes) -> Any:
    """Gives the value, or the error as a value: a broken line is reported, and the reading continues."""
    try:
        return json.loads(content)
    except UnicodeDecodeError:
        return ValueError("not UTF-8 text")
    except RecursionError:
        return ValueError("nested too deeply")
    except ValueError as error:
        return error
