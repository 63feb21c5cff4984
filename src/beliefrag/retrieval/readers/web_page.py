"""HTML: the visible text, block by block, without scripts and styles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree  # type: ignore[import-untyped]

from beliefrag.retrieval.document import Complain, CorpusFile, Document, Unreadable
from beliefrag.retrieval.text import clean_line, decode, read_limited

__all__ = ["read_web_page"]

_UNSEEN = re.compile("script|style|template|noscript|head|svg|math|iframe|object|canvas|audio|video")
_INLINE = re.compile(
    "a|abbr|acronym|b|bdi|bdo|big|br|button|cite|code|data|del|dfn|em|font|i|img|input|ins|kbd|label|mark|meter|output|"
    "picture|q|rp|rt|ruby|s|samp|small|span|strike|strong|sub|sup|td|th|time|tt|u|var|wbr"
)
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{2,40})""", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


def read_web_page(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Reads an HTML file, broken or not. Nothing is fetched: neither what it links to nor what it declares."""
    data = read_limited(file.path)
    declared = _CHARSET.search(data, 0, 4096)
    text = decode(data, declared[1].decode() if declared else "")
    parser = etree.HTMLParser(
        encoding="utf-8", no_network=True, huge_tree=False, recover=True, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError as problem:
        raise Unreadable("holds no HTML") from problem
    if root is None:
        raise Unreadable("holds no HTML")
    title = next(
        (line for place in ("head/title", ".//h1") for line in map(_element_line, root.iterfind(place)) if line),
        file.stem,
    )
    yield Document(file.name, title, _visible_text(root), file.source)


def _element_line(element: etree._Element) -> str:
    return clean_line("".join(element.itertext()))


def _visible_text(root: etree._Element) -> str:
    parts: list[str] = []
    unseen = 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        tag = element.tag if isinstance(element.tag, str) else ""
        # An element that is not known to be inline is a block, so that words of two blocks never run together.
        if not _INLINE.fullmatch(tag):
            parts.append("\n\n")
        elif tag in ("td", "th"):
            parts.append(" ")
        hides = _UNSEEN.fullmatch(tag) is not None
        if event == "start":
            unseen += hides
            if tag == "br":
                parts.append("\n")
            text = element.text
        else:
            unseen -= hides
            text = element.tail
        if text and not unseen:
            parts.append(text if tag == "pre" else _SPACE.sub(" ", text))
    blocks = (block.strip() for block in "".join(parts).split("\n\n"))
    return "\n\n".join(block for block in blocks if block)
