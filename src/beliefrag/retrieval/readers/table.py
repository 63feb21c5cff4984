"""CSV and TSV: one document per row."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import TextIOWrapper

from beliefrag.retrieval.document import Complain, CorpusFile, Document, Unreadable
from beliefrag.retrieval.readers.rows import BadRow, row_document
from beliefrag.retrieval.text import clean_line, encoding_of

__all__ = ["read_table"]

_LONGEST_CELL = 16 * 1024 * 1024
_SAMPLE = 64 * 1024


def read_table(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Reads a .csv or .tsv file whose first row names the columns.

    With a column `text` a row is a text, with `id` and `title` where there are such columns. Otherwise the row becomes
    a text of `column: value` pairs, so that a cell can still be understood when it stands alone.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    with file.path.open("rb") as raw:
        sample = raw.read(_SAMPLE)
        if not sample.strip():
            raise Unreadable("is empty")
        encoding = encoding_of(sample, whole=len(sample) < _SAMPLE)
        raw.seek(0)
        rows = csv.reader(
            TextIOWrapper(raw, encoding, "replace", newline=""),
            delimiter=_delimiter(sample.decode(encoding, "replace")),
        )
        try:
            columns = [clean_line(name) for name in next(rows, [])]
            texts = {name.lower(): place for place, name in reversed(list(enumerate(columns)))}
            for row in rows:
                if any(cell.strip() for cell in row):
                    try:
                        yield _text_row(file, texts, row) if "text" in texts else _record(file, columns, row)
                    except BadRow as problem:
                        complain(f"line {rows.line_num} {problem}")
        except csv.Error as problem:
            complain(f"line {rows.line_num} cannot be read ({problem}); reading stopped there")


def _delimiter(sample: str) -> str:
    header = sample.partition("\n")[0]
    return max(",\t;|", key=header.count)


def _text_row(file: CorpusFile, places: dict[str, int], row: list[str]) -> Document:
    return row_document(
        file, {name: row[places[name]] for name in ("id", "title", "text") if places.get(name, len(row)) < len(row)}
    )


def _record(file: CorpusFile, columns: list[str], row: list[str]) -> Document:
    pairs = []
    for place, cell in enumerate(row):
        value = " ".join(cell.split())
        if value:
            name = columns[place] if place < len(columns) and columns[place] else f"column {place + 1}"
            pairs.append(f"{name}: {value}")
    return Document(file.name, file.stem, "; ".join(pairs), file.source)
