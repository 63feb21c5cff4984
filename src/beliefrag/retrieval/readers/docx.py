"""Word documents: paragraphs and tables in their order."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from io import BytesIO

import docx
from docx.document import Document as WordDocument
from docx.opc.exceptions import OpcError
from docx.table import Table
from lxml import etree  # type: ignore[import-untyped]

from beliefrag.retrieval.documents import (
    Complain,
    CorpusFile,
    Document,
    Unreadable,
    clean_line,
    clean_text,
    read_content,
)
from beliefrag.retrieval.readers.text_files import Outline, write_documents

_HEADING = re.compile(r"Heading ([1-6])")


def read_docx(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a .docx file; its title is the one in its properties, else its first heading of level 0 or 1."""
    data = read_content(file)
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise Unreadable("is encrypted or in the old .doc format; save it as an open .docx")
    try:
        word = docx.Document(BytesIO(data))
        outline = _outline(word)
        title = clean_line(word.core_properties.title or "") or _first_heading(word)
    except (OpcError, zipfile.BadZipFile, etree.LxmlError, LookupError, ValueError, AttributeError, OSError) as problem:
        raise Unreadable("is a broken docx") from problem
    if not outline.whole_text():
        raise Unreadable("holds no text")
    yield from write_documents(file, title or file.stem, outline)


def _outline(word: WordDocument) -> Outline:
    outline = Outline()
    for item in word.iter_inner_content():
        if isinstance(item, Table):
            outline.add(clean_text("\n".join(_read_rows(item))) + "\n\n")
            continue
        style = item.style.name if item.style is not None else None
        heading = _HEADING.fullmatch(style or "")
        if heading and item.text.strip():
            outline.begin(int(heading[1]), clean_text(item.text))
        else:
            outline.add(clean_text(item.text) + "\n\n")
    return outline


def _read_rows(table: Table) -> Iterator[str]:
    for row in table.rows:
        # A merged cell is reported once for every column that it covers.
        yield " | ".join(dict.fromkeys(" ".join(cell.text.split()) for cell in row.cells))


def _first_heading(word: WordDocument) -> str:
    for paragraph in word.paragraphs:
        style = paragraph.style.name if paragraph.style is not None else None
        if style in ("Title", "Heading 1") and paragraph.text.strip():
            return clean_line(paragraph.text)
    return ""
