"""JSON lines, plain or gzipped: one object per line with `text`, and perhaps `id` and `title`."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from typing import IO

from beliefrag.retrieval.document import Complain, CorpusFile, Document, Unreadable
from beliefrag.retrieval.readers.rows import BadRow, row_document

__all__ = ["read_jsonl"]

_LONGEST_LINE = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


def read_jsonl(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Reads a .jsonl or .jsonl.gz file line by line. A broken line costs that line, not the file."""
    number = 0
    with _opened(file) as lines:
        try:
            while line := lines.readline(_LONGEST_LINE):
                number += 1
                if len(line) == _LONGEST_LINE:
                    complain(f"line {number} is longer than {_LONGEST_LINE >> 20} MB; reading stopped there")
                    return
                if line.strip():
                    try:
                        yield _document(file, line.removeprefix(_BOM) if number == 1 else line)
                    except BadRow as problem:
                        complain(f"line {number} {problem}")
        except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
            if number == 0:
                raise Unreadable("is a broken gzip file") from problem
            complain(f"the gzip data ends or breaks after line {number}")


def _opened(file: CorpusFile) -> gzip.GzipFile | IO[bytes]:
    if file.path.name.lower().endswith(".gz"):
        return gzip.open(file.path, "rb")
    return file.path.open("rb")


def _document(file: CorpusFile, line: bytes) -> Document:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise BadRow("is not valid JSON") from None
    if not isinstance(row, dict):
        raise BadRow("is not a JSON object")
    return row_document(file, row)
