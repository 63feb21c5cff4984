"""Word, PowerPoint, OpenDocument and EPUB: parts of XML in a zip archive."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from lxml import etree  # type: ignore[import-untyped]

from beliefrag.retrieval.documents import Complain, CorpusFile, Document, Unreadable, clean_line, clean_text
from beliefrag.retrieval.readers.tables import write_table
from beliefrag.retrieval.readers.text_files import Outline, write_documents
from beliefrag.retrieval.readers.web_page import outline_page, parse_page

_HEADING = re.compile(r"heading ([1-6])", re.IGNORECASE)
_MOST_COLUMNS = 256
_NOT_TEXT = ("Fallback", "tracked-changes", "annotation", "del", "instrText")
_SPACES = ("tab", "br", "cr", "s", "line-break")


def read_docx(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a .docx file with its headings, tables and notes."""
    with _open_parts(file) as parts:
        root = _parse(parts, "word/document.xml")
        levels = _style_levels(parts) if "word/styles.xml" in parts.namelist() else {}
        outline = Outline()
        _walk(root, outline, levels)
        for name in ("word/footnotes.xml", "word/endnotes.xml"):
            if name in parts.namelist():
                _walk(_parse(parts, name), outline, levels)
        title = _find_title(parts, "docProps/core.xml")
    yield from _write(file, title, outline)


def read_odt(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read an OpenDocument text (.odt), or the slides of a presentation (.odp)."""
    with _open_parts(file) as parts:
        root = _parse(parts, "content.xml")
        title = _find_title(parts, "meta.xml")
        slides = list(root.iter("{*}page"))
    if slides:
        yield from _write_slides(file, title, slides)
        return
    outline = Outline()
    _walk(root, outline, {})
    yield from _write(file, title, outline)


def read_pptx(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read the slides of a .pptx file, each with its notes."""
    with _open_parts(file) as parts:
        targets = _relations(parts, "ppt/presentation.xml")
        slides = []
        for listed in _parse(parts, "ppt/presentation.xml").iter("{*}sldId"):
            name = targets[_attribute(listed, "id", space=True)]
            slide = _parse(parts, name)
            for notes in _relations(parts, name).values():
                if "/notesSlides/" in notes:
                    slide.append(_parse(parts, notes))
            slides.append(slide)
        title = _find_title(parts, "docProps/core.xml")
    yield from _write_slides(file, "" if title == "PowerPoint Presentation" else title, slides)


def read_epub(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read the chapters of a book in their order."""
    with _open_parts(file) as parts:
        book = _attribute(next(_parse(parts, "META-INF/container.xml").iter("{*}rootfile")), "full-path")
        package = _parse(parts, book)
        title = _find_title(parts, book)
        items = {_attribute(item, "id"): _attribute(item, "href") for item in package.iter("{*}item")}
        outline = Outline()
        for listed in package.iter("{*}itemref"):
            name = posixpath.normpath(
                posixpath.join(posixpath.dirname(book), unquote(items[_attribute(listed, "idref")]))
            )
            if name in parts.namelist():
                outline_page(parse_page(parts.read(name)), outline)
            else:
                complain(f"the chapter {clean_line(name)} is missing")
    yield from _write(file, title, outline)


@contextmanager
def _open_parts(file: CorpusFile) -> Iterator[zipfile.ZipFile]:
    start = file.content.read(64)
    file.content.seek(0)
    kind = file.name.rpartition(".")[2].lower()
    if not start.strip():
        raise Unreadable("is empty")
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        raise Unreadable(f"is encrypted or in an old format of Office; save it as an open .{kind}")
    try:
        with zipfile.ZipFile(file.content) as parts:
            yield parts
    except (zipfile.BadZipFile, etree.LxmlError, LookupError, ValueError, StopIteration, RuntimeError) as problem:
        raise Unreadable(f"is a broken or encrypted {kind}") from problem


def _parse(parts: zipfile.ZipFile, name: str) -> Any:
    root = etree.fromstring(parts.read(name), etree.XMLParser(resolve_entities=False, no_network=True))
    etree.strip_elements(root, *(f"{{*}}{each}" for each in _NOT_TEXT), with_tail=False)
    for element in root.iter(*(f"{{*}}{each}" for each in _SPACES)):
        element.text = " "
    return root


def _relations(parts: zipfile.ZipFile, name: str) -> dict[str, str]:
    folder, base = posixpath.split(name)
    relations = f"{folder}/_rels/{base}.rels"
    if relations not in parts.namelist():
        return {}
    listed = [(each.get("Id", ""), each.get("Target", "")) for each in _parse(parts, relations)]
    return {key: posixpath.normpath(posixpath.join(folder, target)).lstrip("/") for key, target in listed}


def _find_title(parts: zipfile.ZipFile, name: str) -> str:
    found = _parse(parts, name).find(".//{http://purl.org/dc/elements/1.1/}title") if name in parts.namelist() else None
    return clean_line("" if found is None else "".join(found.itertext()))


def _attribute(element: Any, name: str, *, space: bool = False) -> str:
    """Return an attribute by its local name, whatever its namespace (with `space`: one that has a namespace)."""
    for key, value in element.attrib.items():
        if etree.QName(key).localname == name and (not space or key[0] == "{"):
            return str(value)
    return ""


def _style_levels(parts: zipfile.ZipFile) -> dict[str, int]:
    """Return the heading level of each paragraph style by its id; a style has that of the style that it is based on."""
    levels: dict[str, int] = {}
    bases: dict[str, str] = {}
    for style in _parse(parts, "word/styles.xml").iter("{*}style"):
        own = _attribute(style, "styleId")
        for part in style.iter("{*}name", "{*}basedOn", "{*}outlineLvl"):
            name, value = etree.QName(part).localname, _attribute(part, "val")
            heading = _HEADING.fullmatch(value)
            if name == "basedOn":
                bases[own] = value
            elif name == "name" and (heading or value == "Title"):
                levels[own] = int(heading[1]) if heading else 0
            elif name == "outlineLvl" and value in "012345":
                levels.setdefault(own, int(value) + 1)
    for own, base in bases.items():
        if own not in levels and base in levels:
            levels[own] = levels[base]
    return levels


def _walk(element: Any, outline: Outline, levels: dict[str, int]) -> None:
    """Add what stands below an element: paragraphs, headings and tables of any of the formats."""
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
    own = next(paragraph.iter("{*}outlineLvl"), None)
    if own is not None and _attribute(own, "val") in tuple("012345"):
        return int(_attribute(own, "val")) + 1
    style = next(paragraph.iter("{*}pStyle"), None)
    return None if style is None else levels.get(_attribute(style, "val"))


def _text(element: Any) -> str:
    """Return the text of a paragraph: what Microsoft's formats have in elements `t`, OpenDocument in all."""
    runs = [each.text or "" for each in element.iter("{*}t", *(f"{{*}}{each}" for each in _SPACES))]
    return "".join(runs if "openxmlformats" in (element.nsmap.get(element.prefix) or "") else element.itertext())


def _rows(table: Any) -> Iterator[list[str]]:
    """Yield the rows of a table, with the text of a merged cell in each of its columns and rows."""
    above: list[str] = []
    for row in table.iter("{*}tr", "{*}table-row"):
        cells: list[str] = []
        for cell in row.iterchildren("{*}tc", "{*}table-cell", "{*}covered-table-cell"):
            text = " ".join(" ".join(map(_text, cell.iter("{*}p", "{*}h"))).split())
            wide, merged = next(cell.iter("{*}gridSpan"), None), next(cell.iter("{*}vMerge"), None)
            if merged is not None and _attribute(merged, "val") != "restart" and len(cells) < len(above):
                text = above[len(cells)]
            span = int(_attribute(cell if wide is None else wide, "gridSpan" if wide is None else "val") or 1)
            cells += [text] * max(1, min(span, _MOST_COLUMNS - len(cells)))
        yield cells
        above = cells


def _write(file: CorpusFile, title: str, outline: Outline) -> Iterator[Document]:
    if not outline.whole_text():
        raise Unreadable("holds no text")
    tops = {section.path[0] for section in outline.sections if section.path}
    title = title or (tops.pop() if len(tops) == 1 else file.stem)
    yield from write_documents(file, title, outline, keep_small=True)


def _write_slides(file: CorpusFile, title: str, slides: list[Any]) -> Iterator[Document]:
    for number, slide in enumerate(slides, 1):
        outline = Outline()
        _walk(slide, outline, {})
        text = outline.whole_text()
        heading = clean_line(text.partition("\n")[0])
        way = " > ".join(dict.fromkeys([title or file.stem, *([heading] if len(heading) <= 80 else [])]))
        if text:
            document = Document(file.name, way, text, file.source, place=f"slide {number}")
            yield replace(document, metadata=(("slide", str(number)),))
