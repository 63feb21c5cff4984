"""Plain text and Markdown, which is kept as it is written: people and models read it well."""

from __future__ import annotations

import re
from collections.abc import Iterator

from beliefrag.retrieval.document import Complain, CorpusFile, Document, Mark, count_visible
from beliefrag.retrieval.readers.markdown_links import find_markdown_links, slug
from beliefrag.retrieval.readers.sections import ENTRY, Outline, write_documents
from beliefrag.retrieval.text import clean_line, decode, read_limited

__all__ = ["read_markdown", "read_plain_text"]

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.+)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_LONGEST_LINE = 60
_MOST_WORDS = 8
_FEWEST_HEADINGS = 2
_STEP = 3
"""How far, at least, text is moved in below a heading of a manual page."""


def read_plain_text(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Reads a text file in UTF-8, in any encoding with a byte-order mark, or in Windows-1252.

    A page that is laid out like a manual page (headings in capital letters, text moved in below them) is cut at its
    headings and at its entries, such as options.
    """
    text = decode(read_limited(file.path))
    outline = _manual_page(text)
    if outline is None:
        start = Mark(0, anchor="")
        yield Document(file.name, file.stem, text, file.source, lines=_number_lines(text), marks=(start,))
    else:
        yield from write_documents(file, file.stem, outline, text)


def read_markdown(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Reads a Markdown file. A block of settings at its top is left out, after a look for a title in it."""
    text = decode(read_limited(file.path))
    front = _FRONT_MATTER.match(text)
    named = _FRONT_TITLE.search(front[1]) if front else None
    body = text[front.end() :] if front else text
    outline, first = _markdown_outline(body, text.count("\n", 0, front.end()) if front else 0)
    title = named[1].strip().strip("\"'") if named else first
    yield from write_documents(file, clean_line(title) or file.stem, outline, body)


def _number_lines(text: str) -> list[tuple[int, int]]:
    """Says of each line that is not empty how many characters other than white space stand before it."""
    result: list[tuple[int, int]] = []
    seen = 0
    for number, line in enumerate(text.split("\n"), 1):
        visible = count_visible(line)
        if visible:
            result.append((seen, number))
            seen += visible
    return result


def _markdown_outline(text: str, lines_above: int) -> tuple[Outline, str]:
    """The sections of a Markdown text that has some lines above it, and its first heading."""
    outline, fence, before, first = Outline(), "", "", ""

    def begin(level: int, heading: str) -> None:
        nonlocal first
        first = first or heading
        outline.begin(level, heading)
        outline.mark_anchor(slug(heading))

    def add(line: str, number: int) -> None:
        for target, words in find_markdown_links(line) if "](" in line or "[[" in line else ():
            outline.mark_link(target, words)
        outline.add(line, number)

    for number, line in enumerate(text.split("\n"), lines_above + 1):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        heading = None if fence or mark else _HEADING.match(line)
        underline = None if fence or mark or not before.strip() else _UNDERLINE.match(line)
        if heading:
            add(before, number - 1)
            begin(len(heading[1]), heading[2].rstrip().rstrip("#").rstrip())
            before = ""
        elif underline:
            begin(1 if underline[1][0] == "=" else 2, before.strip())
            before = ""
        else:
            add(before, number - 1)
            before = f"{line}\n"
            if fence or mark:
                outline.add(before, number)
                before = ""
    add(before, number)
    return outline, first


def _manual_page(text: str) -> Outline | None:
    """The sections of a text that is laid out like a manual page; None for any other text."""
    lines = text.expandtabs().split("\n")
    depths = [len(line) - len(line.lstrip()) if line.strip() else -1 for line in lines]
    following = _next_depths(depths)
    if sum(_is_capital(line) and after >= _STEP for line, after in zip(lines, following, strict=True)) < (
        _FEWEST_HEADINGS
    ):
        return None
    outline = Outline()
    entries: list[int] = []
    blank, begun = True, False
    for place, line in enumerate(lines):
        depth, after = depths[place], following[place]
        if depth >= 0:
            while entries and depth <= entries[-1]:
                outline.end(ENTRY + len(entries) - 1)
                entries.pop()
        if depth == 0 and after >= _STEP and _is_capital(line):
            outline.begin(1, line)
            begun = True
        elif depth == _STEP and after > depth and _is_short(line) and blank:
            outline.begin(2, line)
            begun = True
        elif depth > 0 and blank and after > depth + 1 and depths[place + 1] > depth and _is_short(line):
            entries.append(depth)
            outline.begin(ENTRY + len(entries) - 1, line)
            begun = False
        else:
            outline.add(f"{line}\n", place + 1)
            begun = begun and depth < 0
        # The first entry of a section may stand right below its heading.
        blank = depth < 0 or begun
    return outline


def _next_depths(depths: list[int]) -> list[int]:
    """Gives, for each line, the indentation of the next line that is not empty; 0 for the last."""
    result, after = [0] * len(depths), 0
    for place in range(len(depths) - 1, -1, -1):
        result[place] = after
        if depths[place] >= 0:
            after = depths[place]
    return result


def _is_capital(line: str) -> bool:
    return _is_short(line) and line[0].isalpha() and line.isupper()


def _is_short(line: str) -> bool:
    words = line.split()
    return len(line.strip()) <= _LONGEST_LINE and 0 < len(words) <= _MOST_WORDS and words[-1][-1] not in ".,;:"
