"""Word documents: paragraphs and tables in their order."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from io import BytesIO

import docx
from docx.document import Document as WordDocument
from docx.opc.exceptions import OpcError
from docx.table import Table
from lxml import etree  # type: ignore[import-untyped]

from beliefrag.retrieval.document import Complain, CorpusFile, Document, Unreadable
from beliefrag.retrieval.text import LARGEST_FILE, clean_line, clean_text, read_limited

__all__ = ["read_docx"]


def read_docx(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Reads a .docx file; its title is the one in its properties, else its first heading of level 0 or 1."""
    data = read_limited(file.path)
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise Unreadable("is encrypted or in the old .doc format; save it as an open .docx")
    try:
        # A small file can unpack to terabytes, so its own table of contents is asked first.
        with zipfile.ZipFile(BytesIO(data)) as parts:
            if sum(part.file_size for part in parts.infolist()) > LARGEST_FILE:
                raise Unreadable(f"unpacks to more than {LARGEST_FILE >> 20} MB")
        word = docx.Document(BytesIO(data))
        blocks = list(_read_blocks(word))
        title = clean_line(word.core_properties.title or "") or _first_heading(word)
    except (OpcError, zipfile.BadZipFile, etree.LxmlError, LookupError, ValueError, AttributeError, OSError) as problem:
        raise Unreadable("is a broken docx") from problem
    text = clean_text("\n\n".join(blocks))
    if not text.strip():
        raise Unreadable("holds no text")
    yield Document(file.name, title or file.stem, text, file.source)


def _read_blocks(word: WordDocument) -> Iterator[str]:
    for item in word.iter_inner_content():
        yield "\n".join(_read_rows(item)) if isinstance(item, Table) else item.text


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
