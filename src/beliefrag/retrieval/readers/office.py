"""Word, PowerPoint, OpenDocument and EPUB: parts of XML in a zip archive."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from lxml import etree  # type: ignore[import-untyped]

from beliefrag.retrieval.documents import CorpusFile, Document, Unreadable, clean_line, clean_text
from beliefrag.retrieval.readers.rows import write_table
from beliefrag.retrieval.readers.sections import Outline
from beliefrag.retrieval.readers.web_page import outline_page

_MOST_COLUMNS = 256
_NOT_TEXT = ("{*}Fallback", "{*}tracked-changes", "{*}annotation", "{*}del", "{*}instrText")
_SPACES = ("{*}tab", "{*}br", "{*}cr", "{*}s", "{*}line-break")
_BLOCKS = ("{*}p", "{*}h", "{*}tbl", "{*}table")
_PROPERTIES = tuple(f"{{*}}{name}" for name in ("name", "basedOn", "outlineLvl", "pStyle", "vMerge", "gridSpan"))
_LEVELS = {str(depth): depth + 1 for depth in range(6)}
"""Levels of headings by `outlineLvl`; 9 is body text."""
_LEVELS_OF_STYLES = {f"heading {level}": level for level in range(1, 7)} | {"title": 0}


def read_docx(file: CorpusFile) -> Iterator[Document]:
    """Read a .docx file with its headings, tables and notes."""
    with _open_parts(file) as parts:
        levels = _style_levels(_parse(parts, "word/styles.xml", optional=True))
        notes = (_parse(parts, f"word/{kind}notes.xml", optional=True) for kind in ("foot", "end"))
        yield from _write(
            file, _find_title(parts, "docProps/core.xml"), [_parse(parts, "word/document.xml"), *notes], levels
        )


def read_odt(file: CorpusFile) -> Iterator[Document]:
    """Read an OpenDocument text (.odt), or the slides of a presentation (.odp)."""
    with _open_parts(file) as parts:
        root, title = _parse(parts, "content.xml"), _find_title(parts, "meta.xml")
    slides = list(root.iter("{*}page"))
    yield from _write_slides(file, title, slides) if slides else _write(file, title, [root], {})


def read_pptx(file: CorpusFile) -> Iterator[Document]:
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


def read_epub(file: CorpusFile) -> Iterator[Document]:
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
                file.complain(f"the chapter {clean_line(name)} is missing")
        yield from outline.documents(file, _find_title(parts, book), keep_small=True)


def _open_parts(file: CorpusFile) -> zipfile.ZipFile:
    if file.content.read(4) == b"\xd0\xcf\x11\xe0":
        kind = file.name.rpartition(".")[2].lower()
        raise Unreadable(f"is encrypted or in an old format of Office; save it as a current .{kind}")
    return zipfile.ZipFile(file.content)


def _parse(parts: zipfile.ZipFile, name: str, *, optional: bool = False) -> Any:
    if optional and name not in parts.namelist():
        return etree.Element("none")
    root = etree.fromstring(parts.read(name), etree.XMLParser(resolve_entities=False, no_network=True))
    etree.strip_elements(root, *_NOT_TEXT, with_tail=False)
    for element in root.iter(*_SPACES):
        element.text = " "
    return root


def _relations(parts: zipfile.ZipFile, name: str) -> dict[str, str]:
    folder, base = posixpath.split(name)
    listed = _parse(parts, f"{folder}/_rels/{base}.rels", optional=True)
    paths = {each.get("Id"): posixpath.join(folder, each.get("Target")) for each in listed}
    return {key: posixpath.normpath(path).lstrip("/") for key, path in paths.items()}


def _find_title(parts: zipfile.ZipFile, name: str) -> str:
    names = {"dc": "http://purl.org/dc/elements/1.1/"}
    title = clean_line(_parse(parts, name, optional=True).xpath("string(//dc:title)", namespaces=names))
    return "" if title == "PowerPoint Presentation" else title


def _attributes(element: Any) -> dict[str, str]:
    """Return the attributes of an element by their local names."""
    return {key.rpartition("}")[2]: str(value) for key, value in element.attrib.items()}


def _properties(element: Any) -> dict[str, str]:
    """Return the attributes of an element and the values of the first properties in it, by their local names."""
    parts = reversed(list(element.iter(*_PROPERTIES)))
    return {etree.QName(part).localname: _attributes(part).get("val", "") for part in parts} | _attributes(element)


def _style_levels(styles: Any) -> dict[str, int]:
    """Return the heading level of each paragraph style by its id; a style has that of the style that it is based on."""
    levels: dict[str, int] = {}
    for style in [*styles, *styles]:  # a style may come before the one that it is based on
        about = _properties(style)
        level = _LEVELS.get(about.get("outlineLvl", ""), levels.get(about.get("basedOn", "")))
        level = _LEVELS_OF_STYLES.get(about.get("name", "").lower(), level)
        if level is not None and "styleId" in about:
            levels[about["styleId"]] = level
    return levels


def _outline(roots: Iterable[Any], levels: dict[str, int]) -> Outline:
    """Return the paragraphs, headings and tables below some elements of any of the formats."""
    outline = Outline()
    for root in roots:
        walk = etree.iterwalk(root, ("start",), _BLOCKS)
        for _, block in walk:
            walk.skip_subtree()
            is_table = etree.QName(block).localname in ("tbl", "table")
            text = write_table(list(_rows(block))) if is_table else clean_text(_text(block))
            level = None if is_table else _level(block, levels)
            if level is not None and text.strip():
                outline.begin(level, text)
            else:
                outline.add(f"{text}\n\n")
    return outline


def _level(paragraph: Any, levels: dict[str, int]) -> int | None:
    about = _properties(paragraph)
    if etree.QName(paragraph).localname == "h":
        return min(int(about.get("outline-level") or 1), 6)
    return _LEVELS.get(about.get("outlineLvl", ""), levels.get(about.get("pStyle", "")))


def _text(element: Any) -> str:
    """Return the text of a paragraph: what Microsoft's formats have in elements `t`, OpenDocument in all."""
    is_open = "openxmlformats" not in element.tag
    return "".join(element.itertext() if is_open else (each.text or "" for each in element.iter("{*}t", *_SPACES)))


def _rows(table: Any) -> Iterator[list[str]]:
    """Yield the rows of a table, with the text of a merged cell in each of its columns and rows."""
    above: list[str] = []
    for row in table.iter("{*}tr", "{*}table-row"):
        cells: list[str] = []
        for cell in row.iterchildren("{*}tc", "{*}table-cell", "{*}covered-table-cell"):
            about = _properties(cell)
            text = " ".join(" ".join(map(_text, cell.iter("{*}p", "{*}h"))).split())
            if about.get("vMerge", "restart") != "restart" and len(cells) < len(above):
                text = above[len(cells)]
            # PowerPoint writes the columns of a merged cell again, as cells without text.
            width = 0 if "hMerge" in about else max(1, min(int(about.get("gridSpan") or 1), _MOST_COLUMNS - len(cells)))
            cells += [text] * width
        yield cells
        above = cells


def _write(file: CorpusFile, title: str, roots: Iterable[Any], levels: dict[str, int]) -> Iterator[Document]:
    outline = _outline(roots, levels)
    tops = {section.path[0] for section in outline.sections if section.path}
    yield from outline.documents(file, title or (tops.pop() if len(tops) == 1 else ""), keep_small=True)


def _write_slides(file: CorpusFile, title: str, slides: Iterable[Any]) -> Iterator[Document]:
    for number, slide in enumerate(slides, 1):
        items, metadata = _outline([slide], {}).items(), (("slide", str(number)),)
        document = file.document(title, items, place=f"slide {number}", metadata=metadata)
        heading = clean_line(document.text.partition("\n")[0])
        way = dict.fromkeys([document.title, *([heading] if 0 < len(heading) <= 80 else [])])
        yield replace(document, title=" > ".join(way))
