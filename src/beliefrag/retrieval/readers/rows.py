"""Tables of texts: JSON Lines, plain or gzipped, CSV and TSV, and workbooks. Every row is one document."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import TextIOWrapper
from typing import Any

from python_calamine import CalamineError, CalamineWorkbook, PasswordError

from beliefrag.retrieval.documents import (
    Complain,
    CorpusFile,
    Document,
    Unreadable,
    clean_line,
    detect_encoding,
    make_storable,
)
from beliefrag.retrieval.readers.tables import find_header, write_row

_BOM = b"\xef\xbb\xbf"
_LONGEST_CELL = 16 * 1024 * 1024
_SAMPLE = 64 * 1024


class BadRow(Exception):
    """A row that is not a document; the message is the reason."""


def row_document(file: CorpusFile, row: Mapping[str, Any], place: str = "") -> Document:
    """Return the document in a row with a `text`, letter for letter, and perhaps an `id` and a `title`."""
    text, title, own = row.get("text"), row.get("title"), row.get("id")
    if not isinstance(text, str) or not make_storable(text).strip():
        raise BadRow("has no text")
    if not isinstance(title, str | None):
        raise BadRow("has a title that is not text")
    if not isinstance(own, str | int | None) or isinstance(own, bool):
        raise BadRow("has an id that is neither text nor a whole number")
    identity = "" if own is None else str(own).strip()
    if not identity.isprintable() or len(identity.encode("utf-8", "replace")) > 400:
        raise BadRow("has an id that is not printable or too long")
    own_id = bool(identity)
    return Document(identity if own_id else file.name, clean_line(title or ""), text, file.source, own_id, place)


def read_jsonl(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a .jsonl or .jsonl.gz file line by line. A broken line costs that line, not the file."""
    number = 0
    lines = gzip.GzipFile(fileobj=file.content) if file.name.lower().endswith(".gz") else file.content
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield _parse_line(file, line.removeprefix(_BOM) if number == 1 else line, f"line {number}")
                except BadRow as problem:
                    complain(f"line {number} {problem}")
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        if number == 0:
            raise Unreadable("is a broken gzip file") from problem
        complain(f"the gzip data ends or breaks after line {number}")


def _parse_line(file: CorpusFile, line: bytes, place: str) -> Document:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise BadRow("is not valid JSON") from None
    if not isinstance(row, dict):
        raise BadRow("is not a JSON object")
    return row_document(file, row, place)


def read_table(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a .csv or .tsv file whose first row names the columns: `text`, `id`, `title`, or `column: value` pairs."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    sample = file.content.read(_SAMPLE)
    if not sample.strip():
        raise Unreadable("is empty")
    encoding = detect_encoding(sample, whole=len(sample) < _SAMPLE)
    file.content.seek(0)
    header = sample.decode(encoding, "replace").partition("\n")[0]
    delimiter = max(",\t;|", key=header.count)
    with TextIOWrapper(file.content, encoding, "replace", newline="") as lines:
        rows = csv.reader(lines, delimiter=delimiter)
        try:
            columns = [clean_line(name) for name in next(rows, [])]
            texts = {name.lower(): place for place, name in reversed(list(enumerate(columns)))}
            # As a spreadsheet counts them: the row of names is the first.
            for number, row in enumerate(rows, 2):
                if any(cell.strip() for cell in row):
                    try:
                        read = _text_row(file, texts, row) if "text" in texts else _pairs_row(file, columns, row)
                        yield replace(read, place=f"row {number}")
                    except BadRow as problem:
                        complain(f"line {rows.line_num} {problem}")
        except csv.Error as problem:
            complain(f"line {rows.line_num} cannot be read ({problem}); reading stopped there")


def _text_row(file: CorpusFile, places: dict[str, int], row: list[str]) -> Document:
    known = [name for name in ("id", "title", "text") if places.get(name, len(row)) < len(row)]
    return row_document(file, {name: row[places[name]] for name in known})


def _pairs_row(file: CorpusFile, columns: list[str], row: list[str]) -> Document:
    return Document(file.name, file.stem, write_row(columns, row), file.source)


def read_sheets(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a workbook. Every row is a document with the names of its columns; its title has sheet and caption."""
    try:
        with CalamineWorkbook.from_filelike(file.content) as book:
            for name in book.sheet_names:
                sheet = book.get_sheet_by_name(name)
                rows = [[_write_cell(cell) for cell in row] for row in sheet.to_python()]
                yield from _sheet_rows(file, clean_line(name), rows, (sheet.start or (0, 0))[0])
    except PasswordError as problem:
        raise Unreadable("is encrypted; remove its password first") from problem
    except CalamineError as problem:
        raise Unreadable("is a broken workbook") from problem


def _sheet_rows(file: CorpusFile, sheet: str, rows: list[list[str]], above: int) -> Iterator[Document]:
    caption, header = find_header(rows, is_sheet=True)
    title = " > ".join(filter(None, (file.stem, sheet, caption)))
    columns = rows[header] if header >= 0 else []
    for number, row in enumerate(rows[header + 1 :], above + header + 2):
        if text := write_row(columns, row):
            place, metadata = f"sheet {sheet}, row {number}", (("sheet", sheet), ("row", str(number)))
            yield Document(file.name, title, text, file.source, place=place, metadata=metadata)


def _write_cell(cell: object) -> str:
    return clean_line(str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell))
