"""Word, PowerPoint, OpenDocument and EPUB: parts of XML in a zip archive."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from lxml import etree  # type: ignore[import-untyped]

from beliefrag.retrieval.documents import (
    Complain,
    CorpusFile,
    Document,
    Unreadable,
    clean_line,
    clean_text,
    make_document,
)
from beliefrag.retrieval.readers.rows import write_table
from beliefrag.retrieval.readers.sections import Outline, write_documents
from beliefrag.retrieval.readers.web_page import outline_page

_HEADING = re.compile(r"heading ([1-6])", re.IGNORECASE)
_MOST_COLUMNS = 256
_NOT_TEXT = ("{*}Fallback", "{*}tracked-changes", "{*}annotation", "{*}del", "{*}instrText")
_SPACES = ("{*}tab", "{*}br", "{*}cr", "{*}s", "{*}line-break")


def read_docx(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a .docx file with its headings, tables and notes."""
    with _open_parts(file) as parts:
        styles = _parse(parts, "word/styles.xml") if "word/styles.xml" in parts.namelist() else ()
        notes = {"word/footnotes.xml", "word/endnotes.xml"}.intersection(parts.namelist())
        roots = [_parse(parts, name) for name in ("word/document.xml", *sorted(notes, reverse=True))]
        yield from _write(file, _find_title(parts, "docProps/core.xml"), roots, _style_levels(styles))


def read_odt(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read an OpenDocument text (.odt), or the slides of a presentation (.odp)."""
    with _open_parts(file) as parts:
        root, title = _parse(parts, "content.xml"), _find_title(parts, "meta.xml")
    slides = list(root.iter("{*}page"))
    yield from _write_slides(file, title, slides) if slides else _write(file, title, [root], {})


def read_pptx(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read the slides of a .pptx file, each with its notes."""
    with _open_parts(file) as parts:
        targets = _relations(parts, "ppt/presentation.xml")
        slides = []
        for listed in _parse(parts, "ppt/presentation.xml").iter("{*}sldId"):
            name = next(targets[value] for value in listed.attrib.values() if value in targets)
            slide = _parse(parts, name)
            slide.extend(_parse(parts, each) for each in _relations(parts, name).values() if "/notesSlides/" in each)
            slides.append(slide)
        yield from _write_slides(file, _find_title(parts, "docProps/core.xml"), slides)


def read_epub(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read the chapters of a book in their order."""
    with _open_parts(file) as parts:
        book = next(_parse(parts, "META-INF/container.xml").iter("{*}rootfile")).get("full-path")
        package = _parse(parts, book)
        items = {item.get("id"): item.get("href") for item in package.iter("{*}item")}
        outline = Outline()
        for listed in package.iter("{*}itemref"):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(book), unquote(items[listed.get("idref")])))
            if name in parts.namelist():
                outline_page(parts.read(name), outline)
            else:
                complain(f"the chapter {clean_line(name)} is missing")
        yield from write_documents(file, _find_title(parts, book) or file.stem, outline, keep_small=True)


def _open_parts(file: CorpusFile) -> zipfile.ZipFile:
    if file.content.read(4) == b"\xd0\xcf\x11\xe0":
        kind = file.name.rpartition(".")[2].lower()
        raise Unreadable(f"is encrypted or in an old format of Office; save it as a current .{kind}")
    return zipfile.ZipFile(file.content)


def _parse(parts: zipfile.ZipFile, name: str) -> Any:
    root = etree.fromstring(parts.read(name), etree.XMLParser(resolve_entities=False, no_network=True))
    etree.strip_elements(root, *_NOT_TEXT, with_tail=False)
    for element in root.iter(*_SPACES):
        element.text = " "
    return root


def _relations(parts: zipfile.ZipFile, name: str) -> dict[str, str]:
    folder, base = posixpath.split(name)
    relations = f"{folder}/_rels/{base}.rels"
    listed = _parse(parts, relations) if relations in parts.namelist() else ()
    return {
        each.get("Id"): posixpath.normpath(posixpath.join(folder, each.get("Target"))).lstrip("/") for each in listed
    }


def _find_title(parts: zipfile.ZipFile, name: str) -> str:
    titles = _parse(parts, name).iter("{http://purl.org/dc/elements/1.1/}title") if name in parts.namelist() else ()
    title = clean_line("".join(next(iter(titles), etree.Element("none")).itertext()))
    return "" if title == "PowerPoint Presentation" else title


def _attribute(element: Any, name: str) -> str:
    """Return an attribute by its local name, whatever its namespace."""
    return next((str(value) for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def _style_levels(styles: Any) -> dict[str, int]:
    """Return the heading level of each paragraph style by its id; a style has that of the style that it is based on."""
    levels: dict[str, int] = {}
    for style in [*styles, *styles]:  # a style may come before the one that it is based on
        parts = style.iter("{*}name", "{*}basedOn", "{*}outlineLvl")
        values = {etree.QName(part).localname: _attribute(part, "val") for part in parts}
        name, depth, base = (values.get(each, "") for each in ("name", "outlineLvl", "basedOn"))
        if (heading := _HEADING.fullmatch(name)) or name == "Title":
            levels[_attribute(style, "styleId")] = int(heading[1]) if heading else 0
        elif depth in tuple("012345") or base in levels:
            levels[_attribute(style, "styleId")] = int(depth) + 1 if depth in tuple("012345") else levels[base]
    return levels


def _walk(element: Any, outline: Outline, levels: dict[str, int]) -> None:
    """Add what is below an element: paragraphs, headings and tables of any of the formats."""
    for child in element.iterchildren(tag=etree.Element):
        name = etree.QName(child).localname
        if name in ("tbl", "table"):
            outline.add(f"{write_table(list(_rows(child)))}\n\n")
        elif name in ("p", "h"):
            text, level = clean_text(_text(child)), _level(child, name, levels)
            if level is not None and text.strip():
                outline.begin(level, text)
            else:
                outline.add(f"{text}\n\n")
        else:
            _walk(child, outline, levels)


def _level(paragraph: Any, name: str, levels: dict[str, int]) -> int | None:
    if name == "h":
        return min(int(_attribute(paragraph, "outline-level") or 1), 6)
    for own in paragraph.iter("{*}outlineLvl"):
        if _attribute(own, "val") in tuple("012345"):
            return int(_attribute(own, "val")) + 1
    return next((levels.get(_attribute(style, "val")) for style in paragraph.iter("{*}pStyle")), None)


def _text(element: Any) -> str:
    """Return the text of a paragraph: what Microsoft's formats have in elements `t`, OpenDocument in all."""
    is_open = "openxmlformats" not in (element.nsmap.get(element.prefix) or "")
    return "".join(element.itertext() if is_open else (each.text or "" for each in element.iter("{*}t", *_SPACES)))


def _rows(table: Any) -> Iterator[list[str]]:
    """Yield the rows of a table, with the text of a merged cell in each of its columns and rows."""
    above: list[str] = []
    for row in table.iter("{*}tr", "{*}table-row"):
        cells: list[str] = []
        for cell in row.iterchildren("{*}tc", "{*}table-cell", "{*}covered-table-cell"):
            text = " ".join(" ".join(map(_text, cell.iter("{*}p", "{*}h"))).split())
            merged = [_attribute(each, "val") for each in cell.iter("{*}vMerge")]
            if merged and merged[0] != "restart" and len(cells) < len(above):
                text = above[len(cells)]
            spans = [_attribute(cell, "gridSpan"), *(_attribute(each, "val") for each in cell.iter("{*}gridSpan"))]
            cells += [text] * max(1, min(int(next(filter(None, spans), 1)), _MOST_COLUMNS - len(cells)))
        yield cells
        above = cells


def _write(file: CorpusFile, title: str, roots: Iterable[Any], levels: dict[str, int]) -> Iterator[Document]:
    outline = Outline()
    for root in roots:
        _walk(root, outline, levels)
    tops = {section.path[0] for section in outline.sections if section.path}
    yield from write_documents(file, title or (tops.pop() if len(tops) == 1 else file.stem), outline, keep_small=True)


def _write_slides(file: CorpusFile, title: str, slides: Iterable[Any]) -> Iterator[Document]:
    for number, slide in enumerate(slides, 1):
        outline = Outline()
        _walk(slide, outline, {})
        document = make_document(
            file, title or file.stem, outline.items(), place=f"slide {number}", metadata=(("slide", str(number)),)
        )
        heading = clean_line(document.text.partition("\n")[0])
        way = dict.fromkeys([document.title, *([heading] if 0 < len(heading) <= 80 else [])])
        yield replace(document, title=" > ".join(way))
