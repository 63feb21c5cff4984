"""Tables: JSON Lines, plain or gzipped, CSV and TSV, workbooks, and tables in other files as text."""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from typing import Any

from beliefrag.retrieval.documents import CorpusFile, Document, Unreadable, clean_line, detect_encoding, make_storable

_LONGEST_CELL = 16 * 1024 * 1024
_SAMPLE = 64 * 1024
_NUMBER = re.compile(r"[-+(]?\s*[$€£]?\s*\d[\d.,:/ %\u00a0-]*\)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_HEADER_WITHIN = 20


def read_jsonl(file: CorpusFile) -> Iterator[Document]:
    """Read a .jsonl or .jsonl.gz file line by line. A broken line costs that line, not the file."""
    number = 0
    lines = gzip.GzipFile(fileobj=file.content) if file.name.lower().endswith(".gz") else file.content
    try:
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    yield from _row_document(file, json.loads(line), f"line {number}", number)
            except (ValueError, RecursionError):
                file.complain(f"line {number} is not valid JSON")
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        if number == 0:
            raise Unreadable("is a broken gzip file") from problem
        file.complain(f"the gzip data ends or breaks after line {number}")


def read_table(file: CorpusFile) -> Iterator[Document]:
    """Read a .csv or .tsv file whose first row names the columns: `text`, `id`, `title`, or `column: value` pairs."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    sample = file.content.read(_SAMPLE)
    encoding = detect_encoding(sample, whole=len(sample) < _SAMPLE)
    file.content.seek(0)
    delimiter = max(",\t;|", key=sample.decode(encoding, "replace").partition("\n")[0].count)
    with TextIOWrapper(file.content, encoding, "replace", newline="") as lines:
        rows = csv.reader(lines, delimiter=delimiter)
        try:
            columns = [clean_line(name) for name in next(rows, [])]
            names = [name.lower() for name in columns]
            # As a spreadsheet counts them: the row of names is the first.
            for number, row in enumerate(rows, 2):
                if any(cell.strip() for cell in row) and "text" in names:
                    # Of columns of the same name, the first counts.
                    cells = dict(reversed(list(zip(names, row, strict=False))))
                    yield from _row_document(file, cells, f"row {number}", rows.line_num)
                elif pairs := write_row(columns, row):
                    yield Document(file.name, file.stem, pairs, file.source, place=f"row {number}")
        except csv.Error as problem:
            file.complain(f"line {rows.line_num} cannot be read ({problem}); reading stopped there")


def _row_document(file: CorpusFile, row: Any, place: str, line: int) -> Iterator[Document]:
    """Yield the document in a row with a `text`, letter for letter, and perhaps an `id` and a `title`, or complain."""
    cells: dict[str, Any] = row if isinstance(row, dict) else {}
    text, title, own = cells.get("text"), cells.get("title"), cells.get("id")
    identity = "" if own is None else str(own).strip()
    faults = {
        "is not a JSON object": not isinstance(row, dict),
        "has no text": not isinstance(text, str) or not make_storable(text).strip(),
        "has a title that is not text": not isinstance(title, str | None),
        "has an id that is neither text nor a whole number": type(own) not in (str, int, type(None)),
        "has an id that is not printable or too long": not identity.isprintable()
        or len(identity.encode("utf-8", "replace")) > 400,
    }
    if fault := next(filter(faults.get, faults), None):
        file.complain(f"line {line} {fault}")
    else:
        yield Document(identity or file.name, clean_line(title or ""), str(text), file.source, bool(identity), place)


def read_sheets(file: CorpusFile) -> Iterator[Document]:
    """Read a workbook. Every row is a document with the names of its columns; its title has sheet and caption."""
    from python_calamine import CalamineWorkbook  # noqa: PLC0415

    with CalamineWorkbook.from_filelike(file.content) as book:
        for name in book.sheet_names:
            cells, sheet = book.get_sheet_by_name(name), clean_line(name)
            rows = [[_write_cell(cell) for cell in row] for row in cells.to_python()]
            caption, header = find_header(rows, is_sheet=True)
            title = " > ".join(filter(None, (file.stem, sheet, caption)))
            columns = rows[header] if header >= 0 else []
            for number, row in enumerate(rows[header + 1 :], (cells.start or (0, 0))[0] + header + 2):
                if text := write_row(columns, row):
                    about = (("sheet", sheet), ("row", str(number)))
                    place = f"sheet {sheet}, row {number}"
                    yield Document(file.name, title, text, file.source, place=place, metadata=about)


def _write_cell(cell: object) -> str:
    return clean_line(str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell))


def find_header(rows: Sequence[Sequence[str]], *, is_sheet: bool = False) -> tuple[str, int]:
    """Return the caption above a table's header and the place of the header in the rows, -1 where it has none.

    A header is the first row that is as full as the others and has no number but years. Outside a spreadsheet, a row of
    two names counts only if there are numbers below: it may as well be the first of several pairs.
    """
    filled = [[cell for cell in row if cell] for row in rows[:_HEADER_WITHIN]]
    widest = max(map(len, filled), default=0)
    place = next((at for at, cells in enumerate(filled) if 2 * len(cells) > widest), 0)
    caption = clean_line(" ".join(cell for cells in filled[:place] for cell in dict.fromkeys(cells)))
    names, *below = filled[place:] or [[]]
    is_header = (
        len(set(names)) == len(names) > 1
        and place + 1 < len(rows)
        and all(_YEAR.fullmatch(cell) or not _NUMBER.fullmatch(cell) for cell in names)
        and (is_sheet or widest > 2 or any(_NUMBER.fullmatch(cell) for cells in below for cell in cells))
    )
    return caption, place if is_header else -1


def write_row(header: Sequence[str], cells: Sequence[str]) -> str:
    """Return a row as `name: value` pairs; without a header, as values."""
    pairs = []
    for place, cell in enumerate(cells):
        if value := " ".join(cell.split()):
            name = (header[place] if place < len(header) else "") or f"column {place + 1}"
            pairs.append(f"{name}: {value}" if header else value)
    return "; ".join(pairs)


def write_table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table as paragraphs: its caption, then its rows."""
    caption, header = find_header(rows)
    if header < 0:
        lines = [" | ".join(dict.fromkeys(cell for cell in row if cell)) for row in rows]
    else:
        # What stands in a first column without a name is what the row is about.
        names = [rows[header][0] or "row", *rows[header][1:]]
        lines = [caption, *(write_row(names, row).removeprefix("row: ") for row in rows[header + 1 :])]
    return "\n\n".join(clean for line in lines if (clean := line.strip()))
