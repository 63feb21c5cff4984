"""HTML: the visible text, block by block, without scripts and styles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lxml import etree  # type: ignore[import-untyped]

from beliefrag.retrieval.documents import CorpusFile, Document, clean_line, decode
from beliefrag.retrieval.readers.sections import ENTRY, Outline

_UNSEEN = re.compile("script|style|template|noscript|head|svg|math|iframe|object|canvas|audio|video")
_INLINE = re.compile(
    "a|abbr|acronym|b|bdi|bdo|big|br|button|cite|code|data|del|dfn|em|font|i|img|input|ins|kbd|label|mark|meter|output|"
    "picture|q|rp|rt|ruby|s|samp|small|span|strike|strong|sub|sup|td|th|time|tt|u|var|wbr"
)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{2,40})""", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_HEADING = re.compile("h[1-6]")


def read_web_page(file: CorpusFile) -> Iterator[Document]:
    """Read an HTML file, broken or not. Nothing is fetched: neither what it links to nor what it declares."""
    data = file.content.read()
    declared = _CHARSET.search(data, 0, 4096)
    outline = Outline()
    root = outline_page(decode(data, declared[1].decode() if declared else "").encode(), outline)
    titles = (_element_line(each) for place in ("head/title", ".//h1") for each in root.iterfind(place))
    yield from outline.documents(file, next(filter(None, titles), ""))


def outline_page(page: bytes, outline: Outline) -> Any:
    """Add the visible text of a page in UTF-8, cut at headings and entries of lists, and return its root element."""
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, recover=True, remove_comments=True, remove_pis=True)
    root = etree.fromstring(page, parser)
    lists = 0
    heading: list[str] | None = None
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag, begins = str(element.tag), event == "start"
        if begins and _UNSEEN.fullmatch(tag):
            walk.skip_subtree()
            continue
        if tag == "dl" and not begins:
            outline.end(ENTRY + lists - 1)
        lists += (tag == "dl") * (1 if begins else -1)
        if tag == "dt" or _HEADING.fullmatch(tag):
            if begins and heading is None:
                heading = []
            elif not begins and heading is not None:
                outline.begin(ENTRY + max(lists, 1) - 1 if tag == "dt" else int(tag[1]), "".join(heading))
                heading = None
        put = outline.add if heading is None else heading.append
        # An element that is not known to be inline is a block so that words of two blocks never run together.
        if not _INLINE.fullmatch(tag):
            put("\n\n")
        elif tag in ("td", "th"):
            put(" ")
        elif tag == "br" and begins:
            put("\n")
        if begins:
            _mark_places(outline, element, tag)
        if text := element.text if begins else element.tail:
            put(text if tag == "pre" else _SPACE.sub(" ", text))
    return root


def _element_line(element: Any) -> str:
    return clean_line("".join(element.itertext()))


def _mark_places(outline: Outline, element: Any, tag: str) -> None:
    """Record the anchors of an element, and its target if it is a link."""
    for name in dict.fromkeys((element.get("id"), element.get("name") if tag == "a" else None)):
        if name:
            outline.mark(anchor=name)
    if tag == "a" and (target := element.get("href")):
        outline.mark(target=target, words=_element_line(element))
