"""Plain text and Markdown, which is kept as it is written: people and models read it well."""

from __future__ import annotations

import re
from collections.abc import Iterator

from beliefrag.retrieval.document import Complain, CorpusFile, Document
from beliefrag.retrieval.text import clean_line, decode, read_limited

__all__ = ["read_markdown", "read_plain_text"]

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.+)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")


def read_plain_text(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Reads a text file in UTF-8, in any encoding with a byte-order mark, or in Windows-1252."""
    yield Document(file.name, file.stem, decode(read_limited(file.path)), file.source)


def read_markdown(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Reads a Markdown file. A block of settings at its top is left out, after a look for a title in it."""
    text = decode(read_limited(file.path))
    front = _FRONT_MATTER.match(text)
    named = _FRONT_TITLE.search(front[1]) if front else None
    body = text[front.end() :] if front else text
    title = named[1].strip().strip("\"'") if named else _first_heading(body)
    yield Document(file.name, clean_line(title) or file.stem, body, file.source)


def _first_heading(text: str) -> str:
    fence, before = "", ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        if not fence:
            heading = _HEADING.match(line)
            if heading:
                return heading[1].rstrip().rstrip("#")
            if before.strip() and _UNDERLINE.match(line):
                return before
        before = "" if fence or mark else line
    return ""
