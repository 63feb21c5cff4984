"""PDF: the text layer of all pages that can be read."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator
from io import BytesIO

from pypdf import PdfReader
from pypdf.errors import DependencyError

from beliefrag.retrieval.documents import (
    Complain,
    CorpusFile,
    Document,
    Unreadable,
    clean_line,
    clean_text,
    count_visible,
    read_content,
)

_BROKEN_WORD = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_NO_TITLE = re.compile(r"untitled|microsoft (word|powerpoint)\b.*|.*\.(docx?|tex|dvi|indd|pdf|rtf)", re.IGNORECASE)


def read_pdf(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read the text layer of a PDF. A page that cannot be read is reported, and the others are kept."""
    # pypdf logs every oddity that it repairs.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = _open_pdf(read_content(file))
    pages = [clean_text(_read_page(reader, number, complain)) for number in range(len(reader.pages))]
    pages = [_BROKEN_WORD.sub("", page) for page in pages]
    text = "\n\n".join(pages)
    if not text.strip():
        raise Unreadable("holds no text; a scan needs text recognition first")
    starts = itertools.accumulate(map(count_visible, pages[:-1]), initial=0)
    lines = [(start, number) for number, start in enumerate(starts, 1)]
    yield Document(file.name, _find_title(reader) or file.stem, text, file.source, lines=lines, unit="page")


def _open_pdf(data: bytes) -> PdfReader:
    encrypted = False
    try:
        reader = PdfReader(BytesIO(data))
        # Many files are encrypted with an empty password, only to restrict printing.
        encrypted = reader.is_encrypted and not reader.decrypt("")
        if not encrypted:
            len(reader.pages)
    except DependencyError:
        encrypted = True
    except Exception as problem:
        raise Unreadable("is a broken pdf") from problem
    if encrypted:
        raise Unreadable("is encrypted; remove its password first")
    return reader


def _read_page(reader: PdfReader, number: int, complain: Complain) -> str:
    try:
        return reader.pages[number].extract_text()
    except Exception:
        complain(f"page {number + 1} cannot be read")
        return ""


def _find_title(reader: PdfReader) -> str:
    try:
        title = clean_line(str((reader.metadata and reader.metadata.title) or ""))
    except Exception:
        return ""
    return "" if _NO_TITLE.fullmatch(title) else title
