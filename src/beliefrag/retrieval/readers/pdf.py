"""PDF: text and tables of all pages that can be read, and text recognition for pages that are pictures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pypdfium2 as pdfium

from beliefrag.retrieval.documents import (
    Complain,
    CorpusFile,
    Document,
    Unreadable,
    clean_line,
    clean_text,
    count_visible,
    count_words,
    read_content,
)
from beliefrag.retrieval.readers.ocr import recognize
from beliefrag.retrieval.readers.tables import find_header, write_table

_BROKEN_WORD = re.compile(r"(?<=[a-z])(?:\x02|-\n)(?=[a-z])")
"""A word that goes on in the next line: PDFium writes U+0002 for its hyphen."""
_NO_TITLE = re.compile(
    r"\(?(untitled|anonymous|unspecified|unknown|title|document)\)?\s*\d*|microsoft (word|powerpoint|excel)\b.*"
    r"|.*\.(docx?|pptx?|xlsx?|odt|tex|dvi|indd|pdf|rtf|html?)",
    re.IGNORECASE,
)
_DOTS_PER_POINT = 200 / 72
_LONGEST_CAPTION = 30
_CAPTION_SPACE = 40.0
"""Points above a table in which its caption stands."""
_FEWEST_LINES = 4
"""How many lines and boxes a page must have to be searched for tables, which takes ten times as long as its text."""


def read_pdf(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a PDF. A page that cannot be read is reported, and the others are kept."""
    data = read_content(file)
    try:
        pdf = pdfium.PdfDocument(data)
        title = clean_line(pdf.get_metadata_value("Title"))
    except pdfium.PdfiumError as problem:
        is_locked = "password" in str(problem).lower() or "security" in str(problem).lower()
        raise Unreadable("is encrypted; remove its password first" if is_locked else "is a broken pdf") from problem
    title = file.stem if not title or _NO_TITLE.fullmatch(title) else title
    pages: list[str] = []
    tables: list[Document] = []
    unread: list[str] = []
    for number in range(1, len(pdf) + 1):
        try:
            text, found = _read_page(pdf, data, number)
        except MemoryError:
            raise
        except Unreadable as problem:
            text, found = "", []
            unread.append(problem.message)
        except Exception:
            text, found = "", []
            complain(f"page {number} cannot be read")
        pages.append(clean_text(_BROKEN_WORD.sub("", text).replace("\x02", "-")))
        for caption, rows in found:
            way, place = " > ".join(filter(None, (title, caption))), f"page {number}"
            metadata = (("page", str(number)),)
            tables.append(Document(file.name, way, rows, file.source, place=place, metadata=metadata))
    text = "\n\n".join(pages)
    if unread and (text.strip() or tables):
        complain(f"{len(unread)} of {len(pages)} pages {unread[0]}")
    elif not text.strip() and not tables:
        raise Unreadable(unread[0] if unread else "holds no text")
    starts = itertools.accumulate(map(count_visible, pages[:-1]), initial=0)
    lines = [(start, number) for number, start in enumerate(starts, 1)]
    yield Document(file.name, title, text, file.source, lines=lines, unit="page")
    yield from tables


def _read_page(pdf: Any, data: bytes, number: int) -> tuple[str, list[tuple[str, str]]]:
    page = pdf[number - 1]
    kinds = [each.type for each in page.get_objects(max_depth=2)]
    if kinds.count(pdfium.raw.FPDF_PAGEOBJ_PATH) >= _FEWEST_LINES and (tables := _read_tables(data, number)):
        return tables
    text = page.get_textpage().get_text_bounded().replace("\r\n", "\n")
    if not text.strip() and pdfium.raw.FPDF_PAGEOBJ_IMAGE in kinds:
        text = recognize(page.render(scale=_DOTS_PER_POINT, grayscale=True).to_pil())
    page.close()
    return text, []


def _read_tables(data: bytes, number: int) -> tuple[str, list[tuple[str, str]]] | None:
    """Return the text of a page without its tables, and each table with its caption; None without tables."""
    import pdfplumber  # noqa: PLC0415 - it takes long to import, and few pages have tables

    with pdfplumber.open(BytesIO(data), pages=[number]) as opened:
        page = opened.pages[0]
        found = []
        for table in page.find_tables():
            rows = [[clean_text(cell or "").replace("\n", " ") for cell in row] for row in table.extract()]
            if len(rows) > 1 and max(map(len, rows)) > 1 and any(any(row) for row in rows):
                found.append((table.bbox, rows))
        if not found:
            return None
        tables = []
        for box, rows in found:
            above = page.crop((0, max(0, box[1] - _CAPTION_SPACE), page.width, box[1]), strict=False)
            lines = (above.extract_text() or "").strip().split("\n")
            caption = clean_line(lines[-1]) if count_words(lines[-1]) <= _LONGEST_CAPTION else ""
            tables.append((find_header(rows)[0] or caption, write_table(rows)))
        boxes = [box for box, _ in found]
        rest = page.filter(lambda each: not any(_is_in(each, box) for box in boxes))
        return rest.extract_text() or "", tables


def _is_in(each: Any, box: tuple[float, float, float, float]) -> bool:
    across, down = (each["x0"] + each["x1"]) / 2, (each["top"] + each["bottom"]) / 2
    return bool(box[0] <= across <= box[2] and box[1] <= down <= box[3])
