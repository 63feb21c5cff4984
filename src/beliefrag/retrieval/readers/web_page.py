"""HTML: the visible text, block by block, without scripts and styles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree  # type: ignore[import-untyped]

from beliefrag.retrieval.documents import Complain, CorpusFile, Document, Unreadable, clean_line, decode, read_content
from beliefrag.retrieval.readers.text_files import ENTRY, Outline, write_documents

_UNSEEN = re.compile("script|style|template|noscript|head|svg|math|iframe|object|canvas|audio|video")
_INLINE = re.compile(
    "a|abbr|acronym|b|bdi|bdo|big|br|button|cite|code|data|del|dfn|em|font|i|img|input|ins|kbd|label|mark|meter|output|"
    "picture|q|rp|rt|ruby|s|samp|small|span|strike|strong|sub|sup|td|th|time|tt|u|var|wbr"
)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{2,40})""", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_HEADING = re.compile("h[1-6]")


def read_web_page(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read an HTML file, broken or not. Nothing is fetched: neither what it links to nor what it declares."""
    data = read_content(file)
    declared = _CHARSET.search(data, 0, 4096)
    root = parse_page(decode(data, declared[1].decode() if declared else "").encode())
    outline = Outline()
    outline_page(root, outline)
    title = next(
        (line for place in ("head/title", ".//h1") for line in map(_element_line, root.iterfind(place)) if line),
        file.stem,
    )
    yield from write_documents(file, title, outline)


def parse_page(text: bytes) -> etree._Element:
    """Return the elements of a page in UTF-8."""
    parser = etree.HTMLParser(
        encoding="utf-8", no_network=True, huge_tree=False, recover=True, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(text, parser)
    except etree.XMLSyntaxError as problem:
        raise Unreadable("holds no HTML") from problem
    if root is None:
        raise Unreadable("holds no HTML")
    return root


def _element_line(element: etree._Element) -> str:
    return clean_line("".join(element.itertext()))


def outline_page(root: etree._Element, outline: Outline) -> None:
    """Add the visible text to an outline, cut at headings and at the entries of lists of definitions."""
    unseen = lists = 0
    heading: list[str] | None = None
    for event, element in etree.iterwalk(root, events=("start", "end")):
        tag = element.tag if isinstance(element.tag, str) else ""
        level = _heading_level(tag, lists)
        if tag == "dl" and event == "end":
            outline.end(ENTRY + lists - 1)
        lists += (tag == "dl") * (1 if event == "start" else -1)
        if level and not unseen:
            if event == "start" and heading is None:
                heading = []
            elif event == "end" and heading is not None:
                outline.begin(level, "".join(heading))
                heading = None
        put = outline.add if heading is None else heading.append
        # An element that is not known to be inline is a block, so that words of two blocks never run together.
        if not _INLINE.fullmatch(tag):
            put("\n\n")
        elif tag in ("td", "th"):
            put(" ")
        hides = _UNSEEN.fullmatch(tag) is not None
        if event == "start":
            unseen += hides
            if not unseen:
                _mark_places(outline, element, tag)
            if tag == "br":
                put("\n")
            text = element.text
        else:
            unseen -= hides
            text = element.tail
        if text and not unseen:
            put(text if tag == "pre" else _SPACE.sub(" ", text))


def _mark_places(outline: Outline, element: etree._Element, tag: str) -> None:
    """Record the anchors of an element, and its target if it is a link."""
    for name in dict.fromkeys((element.get("id"), element.get("name") if tag == "a" else None)):
        if name:
            outline.mark(anchor=name)
    target = element.get("href") if tag == "a" else None
    if target:
        outline.mark(target=target, words=_element_line(element))


def _heading_level(tag: str, lists: int) -> int:
    if tag == "dt":
        return ENTRY + max(lists, 1) - 1
    return int(tag[1]) if _HEADING.fullmatch(tag) else 0
