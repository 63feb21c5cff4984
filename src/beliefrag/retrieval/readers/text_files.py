"""Plain text, Markdown, source code and rich text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from beliefrag.retrieval.documents import CorpusFile, Document, Mark, Unreadable, clean_line, clean_text, decode
from beliefrag.retrieval.readers.sections import ENTRY, Outline

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_LINK = re.compile(
    r"(?<!!)\[(?P<words>[^\[\]]{1,200})\]\(\s*<?(?P<target>[^()\s<>]{1,300})>?(?:\s+[\"'(][^)]{0,500})?\s*\)"
    r"|\[\[(?P<page>[^\[\]|]{1,200})(?:\|(?P<shown>[^\[\]]{1,200}))?\]\]"
)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_DEFINITION = re.compile(
    r"(?:(?:export|default|public|private|protected|static|final|abstract|async|pub(?:\([a-z]+\))?|internal)[ ]+)*"
    r"(?:def|class|func|function|fn|fun|struct|enum|impl|interface|trait|type|module|namespace|object|sub|record|"
    r"CREATE (?:TABLE|VIEW|FUNCTION))[ ]+(?:\([^)]{0,80}\)[ ]*)?([\w.$]{1,80})"
)
_LONGEST_LINE = 60
_MOST_WORDS = 8
_FEWEST_HEADINGS = 2
_STEP = 3
"""How far, at least, text is indented below a heading of a manual page."""


def read_plain_text(file: CorpusFile) -> Iterator[Document]:
    """Read a text file; a page that is laid out like a manual page is cut at its headings and entries."""
    lines = decode(file.content.read()).expandtabs().split("\n")
    outline = _outline_manual_page(lines)
    if sum(len(section.path) == 1 and section.heading != "" for section in outline.sections) < _FEWEST_HEADINGS:
        outline = Outline()
        for number, line in enumerate(lines, 1):
            outline.add(f"{line}\n", number)
        yield file.document("", [Mark(anchor=""), *outline.items()])
    else:
        yield from outline.documents(file, "")


def read_markdown(file: CorpusFile) -> Iterator[Document]:
    """Read a Markdown file. Front matter is left out, but its title is used."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - it takes long to import

    text = decode(file.content.read())
    front = _FRONT_MATTER.match(text)
    named = _FRONT_TITLE.search(front[1]) if front else None
    body = _FRONT_MATTER.sub(lambda found: "\n" * found[0].count("\n"), text)
    headings = {
        begun.map[0]: (int(begun.tag[1]), words.content, begun.map[1])
        for begun, words in pairwise(MarkdownIt().disable("inline").parse(body))
        if begun.type == "heading_open" and begun.level == 0 and begun.map and words.content
    }
    outline, below = Outline(), 0
    for number, line in enumerate(body.split("\n")):
        if number in headings:
            level, heading, below = headings[number]
            outline.begin(level, heading)
            outline.mark(anchor=slug(heading))
        elif number >= below:
            for target, words in find_markdown_links(line):
                outline.mark(target=target, words=words)
            outline.add(f"{line}\n", number + 1)
    title = named[1].strip("\"' ") if named else next((heading for _, heading, _ in headings.values()), "")
    yield from outline.documents(file, clean_line(title), body.strip(), keep_small=True)


def read_code(file: CorpusFile) -> Iterator[Document]:
    """Read source code, cut where a definition begins in the first column; its title names what it defines."""
    outline = Outline()
    for number, line in enumerate(decode(file.content.read()).split("\n"), 1):
        if found := _DEFINITION.match(line):
            outline.begin(1, found[1])
        outline.add(f"{line}\n", number)
    yield from outline.documents(file, PurePosixPath(file.name).name, keep_small=True)


def read_rtf(file: CorpusFile) -> Iterator[Document]:
    """Read rich text."""
    from striprtf.striprtf import rtf_to_text  # noqa: PLC0415 - it takes long to import

    data = file.content.read()
    if not data.startswith(b"{\\rtf"):
        raise Unreadable("is not rich text")
    text = rtf_to_text(data.decode("latin-1"), errors="replace")  # type: ignore[no-untyped-call]
    yield file.document("", [clean_text(text)])


def _outline_manual_page(lines: list[str]) -> Outline:
    """Return the sections of lines that are laid out like a manual page: indented below headings and entries."""
    depths = [len(line) - len(line.lstrip()) if line.strip() else -1 for line in lines]
    following, after = [0] * len(depths), 0
    for at in range(len(depths) - 1, -1, -1):
        following[at], after = after, depths[at] if depths[at] >= 0 else after
    outline, blank, level = Outline(), True, 0
    for at, (line, depth, after) in enumerate(zip(lines, depths, following, strict=True)):
        if depth >= 0:
            outline.end(ENTRY + depth)
        if after <= depth or not _is_short(line):
            level = 0
        elif depth == 0:
            level = int(after >= _STEP and line[0].isalpha() and line.isupper())
        elif depth == _STEP:
            level = 2 * blank
        else:
            level = (ENTRY + depth) * (blank and after > depth + 1 and depths[at + 1] > depth)
        if level:
            outline.begin(level, line)
        else:
            outline.add(f"{line}\n", at + 1)
        # The first entry of a section may stand right below its heading.
        blank = depth < 0 or level in (1, 2)
    return outline


def _is_short(line: str) -> bool:
    words = line.split()
    return len(line.strip()) <= _LONGEST_LINE and 0 < len(words) <= _MOST_WORDS and words[-1][-1] not in ".,;:"


def find_markdown_links(line: str) -> Iterator[tuple[str, str]]:
    """Yield target and words of the links in a line: `[words](target)`, and `wiki:page` for `[[page|words]]`."""
    for found in _LINK.finditer(line):
        if found["target"]:
            yield found["target"], found["words"].strip()
        else:
            page = found["page"].strip()
            yield f"wiki:{page}", (found["shown"] or page).strip()


def slug(heading: str) -> str:
    """Return the anchor of a heading, as most tools make it: `What is new?` becomes `what-is-new`."""
    return _NOT_IN_SLUG.sub("", heading.strip().lower()).replace(" ", "-")
