"""PDF: text and tables of all pages that can be read, and text recognition for pages that are pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pypdfium2 as pdfium

from beliefrag.retrieval.documents import CorpusFile, Document, Unreadable, clean_line, clean_text, count_words
from beliefrag.retrieval.readers.ocr import recognize
from beliefrag.retrieval.readers.rows import find_header, write_table

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


def read_pdf(file: CorpusFile) -> Iterator[Document]:
    """Read a PDF. A page that cannot be read is reported, and the others are kept."""
    data = file.content.read()
    pdf = pdfium.PdfDocument(data)
    title = clean_line(pdf.get_metadata_value("Title"))
    title = file.stem if not title or _NO_TITLE.fullmatch(title) else title
    items: list[str | int] = []
    tables: list[Document] = []
    scans: list[str] = []
    for number in range(1, len(pdf) + 1):
        try:
            text, found = _read_page(pdf, data, number)
        except MemoryError:
            raise
        except Unreadable as problem:
            scans.append(problem.message)
            continue
        except Exception:
            file.complain(f"page {number} cannot be read")
            continue
        items += [number, clean_text(_BROKEN_WORD.sub("", text).replace("\x02", "-")), "\n\n"]
        for caption, rows in found:
            way, about = " > ".join(filter(None, (title, caption))), (("page", str(number)),)
            tables.append(file.document(way, [rows], place=f"page {number}", metadata=about))
    document = file.document(title, items, unit="page")
    if scans and not document.text and not tables:
        raise Unreadable(scans[0])
    if scans:
        file.complain(f"{len(scans)} of {len(pdf)} pages {scans[0]}")
    yield from (document, *tables)


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
        rest = page = opened.pages[0]
        tables = []
        for table in page.find_tables():
            rows = [[clean_text(cell or "").replace("\n", " ") for cell in row] for row in table.extract()]
            if len(rows) > 1 and max(map(len, rows)) > 1 and any(any(row) for row in rows):
                box = table.bbox
                above = page.crop((0, max(0, box[1] - _CAPTION_SPACE), page.width, box[1]), strict=False)
                line = (above.extract_text() or "").strip().rpartition("\n")[2]
                caption = clean_line(line) if count_words(line) <= _LONGEST_CAPTION else ""
                tables.append((find_header(rows)[0] or caption, write_table(rows)))
                rest = rest.outside_bbox(box, strict=False)
        return (rest.extract_text() or "", tables) if tables else None
