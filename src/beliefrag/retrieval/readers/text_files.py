"""Plain text and Markdown, and the sections below headings and entries that all formats are cut into."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from striprtf.striprtf import rtf_to_text

from beliefrag.retrieval.documents import (
    TARGET,
    Complain,
    CorpusFile,
    Document,
    Mark,
    Unreadable,
    clean_line,
    clean_text,
    count_visible,
    count_words,
    decode,
    read_content,
)

ENTRY = 10
"""The level of an entry of a list of definitions; entries of lists in lists are deeper. Headings have 1 to 6."""

_LONGEST_HEADING = 80
_SMALL = 25
_BLANK_LINES = re.compile(r"\n\s*\n")
_NOT_WORD = re.compile(r"[\W_]+")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.+)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")
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


def read_plain_text(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a text file; a page that is laid out like a manual page is cut at its headings and entries."""
    text = decode(read_content(file))
    outline = _manual_page(text)
    if outline is None:
        start = Mark(0, anchor="")
        yield Document(file.name, file.stem, text, file.source, lines=_number_lines(text), marks=(start,))
    else:
        yield from write_documents(file, file.stem, outline, text)


def read_markdown(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a Markdown file. Front matter is left out, but its title is used."""
    text = decode(read_content(file))
    front = _FRONT_MATTER.match(text)
    named = _FRONT_TITLE.search(front[1]) if front else None
    body = text[front.end() :] if front else text
    outline, first = _markdown_outline(body, text.count("\n", 0, front.end()) if front else 0)
    title = named[1].strip().strip("\"'") if named else first
    yield from write_documents(file, clean_line(title) or file.stem, outline, body, keep_small=True)


def read_code(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read source code, cut where a definition begins in the first column; its title names what it defines."""
    outline = Outline()
    for number, line in enumerate(decode(read_content(file)).split("\n"), 1):
        if found := _DEFINITION.match(line):
            outline.begin(1, found[1])
        outline.add(f"{line}\n", number)
    yield from write_documents(file, PurePosixPath(file.name).name, outline, keep_small=True)


def read_rtf(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read rich text."""
    data = read_content(file)
    if not data.startswith(b"{\\rtf"):
        raise Unreadable("is no rich text")
    text = rtf_to_text(data.decode("latin-1"), errors="replace")  # type: ignore[no-untyped-call]
    yield Document(file.name, file.stem, clean_text(text), file.source)


def _number_lines(text: str) -> list[tuple[int, int]]:
    """Return each line that is not empty: how many visible characters come before it, and its number."""
    result: list[tuple[int, int]] = []
    seen = 0
    for number, line in enumerate(text.split("\n"), 1):
        visible = count_visible(line)
        if visible:
            result.append((seen, number))
            seen += visible
    return result


def _markdown_outline(text: str, lines_above: int) -> tuple[Outline, str]:
    """Return the sections of a Markdown text that has some lines above it, and its first heading."""
    outline, fence, before, first = Outline(), "", "", ""

    def begin(level: int, heading: str) -> None:
        nonlocal first
        first = first or heading
        outline.begin(level, heading)
        outline.mark(anchor=slug(heading))

    def add(line: str, number: int) -> None:
        for target, words in find_markdown_links(line) if "](" in line or "[[" in line else ():
            outline.mark(target=target, words=words)
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
    """Return the sections of a text that is laid out like a manual page; None for any other text."""
    lines = text.expandtabs().split("\n")
    depths = [len(line) - len(line.lstrip()) if line.strip() else -1 for line in lines]
    following = _next_depths(depths)
    headings = sum(_is_capital(line) and after >= _STEP for line, after in zip(lines, following, strict=True))
    if headings < _FEWEST_HEADINGS:
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
    """Return, for each line, the indentation of the next line that is not empty; 0 for the last."""
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


@dataclass(slots=True)
class _Section:
    path: tuple[str, ...]
    is_entry: bool
    text: list[str] = field(default_factory=list)
    seen: int = 0
    """Visible characters so far."""
    lines: list[tuple[int, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


class Outline:
    """Gathers the text of a document section by section."""

    def __init__(self) -> None:
        self._path: list[tuple[int, str]] = []
        self._whole: list[str] = []
        self._waiting: list[Mark] = []
        """Anchors and links before the next words."""
        self.sections = [_Section((), is_entry=False)]

    def whole_text(self) -> str:
        """Return all text in its order, headings too, with a blank line between blocks."""
        blocks = (block.strip() for block in "".join(self._whole).split("\n\n"))
        return "\n\n".join(block for block in blocks if block)

    def add(self, text: str, line: int = 0) -> None:
        """Add text to the current section, with its line in the file if it is known."""
        section = self.sections[-1]
        section.text.append(text)
        self._whole.append(text)
        visible = count_visible(text)
        if visible:
            section.marks += [replace(mark, offset=section.seen) for mark in self._waiting]
            self._waiting = []
            if line:
                section.lines.append((section.seen, line))
            section.seen += visible

    def mark(self, *, anchor: str | None = None, target: str = "", words: str = "") -> None:
        """Record an anchor of what follows, or a link whose words follow."""
        self._waiting.append(Mark(0, anchor, target, words))

    def begin(self, level: int, heading: str) -> None:
        """Begin the section of a heading, which ends all sections of its level and of deeper ones."""
        self._path = [each for each in self._path if each[0] < level]
        # Generators of pages add such signs as links to the heading itself.
        heading = clean_line(heading).rstrip("¶\uf0c1 ")
        if heading:
            self._path.append((level, heading))
            self._whole.append(f"\n\n{heading}\n\n")
        self._start(is_entry=level >= ENTRY)

    def end(self, level: int) -> None:
        """End all sections of a level and of deeper ones: what follows belongs to the section around them."""
        if any(each[0] >= level for each in self._path):
            self._path = [each for each in self._path if each[0] < level]
            self._start(is_entry=bool(self._path) and self._path[-1][0] >= ENTRY)

    def _start(self, *, is_entry: bool) -> None:
        self.sections.append(_Section(tuple(heading for _, heading in self._path), is_entry))

    def all_marks(self) -> list[Mark]:
        """Return all anchors and links in their order, as if they came first."""
        marks = [*(mark for section in self.sections for mark in section.marks), *self._waiting]
        return [replace(mark, offset=0) for mark in marks]


def write_documents(
    file: CorpusFile, title: str, outline: Outline, whole: str | None = None, *, keep_small: bool = False
) -> Iterator[Document]:
    """Yield the sections as documents whose titles are the path to them: `Title > Heading > Entry`.

    A document that fits into one passage and has one heading at most stays one, with the text `whole` or that of the
    outline. A section of a few words stays with the one before it, unless `keep_small`: pages of manuals have many that
    say nothing alone. A heading that repeats the title is left out.
    """
    text = outline.whole_text() if whole is None else whole
    start = Mark(0, anchor="")
    if count_words(text) <= TARGET and not (keep_small and _count_headings(outline) > 1):
        numbers = [number for section in outline.sections for _, number in section.lines]
        # One passage holds it all, so of the lines only the first and the last matter.
        lines = [(0, numbers[0]), (max(count_visible(text) - 1, 1), numbers[-1])] if numbers else []
        yield Document(file.name, title, text, file.source, lines=lines, marks=(start, *outline.all_marks()))
        return
    for number, part in enumerate(_join_small(outline.sections, keep_small=keep_small)):
        way = [title]
        for heading in part.path:
            if not _same(way[-1], heading):
                way.append(_shorten(heading))
        marks = tuple(part.marks if number else [start, *part.marks])
        yield Document(file.name, " > ".join(way), part.text, file.source, lines=part.lines, marks=marks)


@dataclass(slots=True)
class _Part:
    """The text of one section or of several small ones, with its known places."""

    path: tuple[str, ...] = ()
    blocks: list[str] = field(default_factory=list)
    words: int = 0
    seen: int = 0
    """Visible characters so far."""
    lines: list[tuple[int, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n".join(self.blocks)

    def add(self, text: str, section: _Section, lead: str = "") -> None:
        """Append the text of a section after some lead words."""
        before = self.seen + count_visible(lead)
        self.lines += [(offset + before, number) for offset, number in section.lines]
        self.marks += [replace(mark, offset=mark.offset + before) for mark in section.marks]
        for block in filter(None, (lead, text)):
            self.blocks.append(block)
            self.words += count_words(block)
            self.seen += count_visible(block)


def _count_headings(outline: Outline) -> int:
    return len({section.path for section in outline.sections if section.path and section.seen})


def _join_small(sections: Sequence[_Section], *, keep_small: bool) -> Iterator[_Part]:
    part = _Part()
    aliases: list[str] = []
    for section in sections:
        text = _BLANK_LINES.sub("\n\n", "".join(section.text)).strip()
        heading = section.path[-1] if section.path else ""
        if not text:
            # Several entries share one explanation, or headings follow each other: the last one has the text.
            if heading and section.is_entry:
                aliases.append(heading)
            continue
        own, above = section.path, ""
        if aliases and section.is_entry:
            own = (*own[:-1], ", ".join([*aliases, heading]))
        elif aliases:
            above = "\n\n".join(aliases)
        aliases = []
        if not part.blocks or own == part.path:
            part.path = own
            part.add(text, section, above)
        elif not keep_small and count_words(f"{above} {text}") < _SMALL:
            lead = own[-1] if own and own[-1] not in part.path else ""
            part.add(text, section, "\n\n".join([each for each in (lead, above) if each]))
        elif not keep_small and part.words < _SMALL and own[: len(part.path)] == part.path:
            part.add(text, section, above)
            part.path = own
        else:
            yield part
            part = _Part(own)
            part.add(text, section, above)
    part.blocks += aliases
    if part.blocks:
        yield part


def _same(one: str, other: str) -> bool:
    first, second = (_NOT_WORD.sub("", each).lower() for each in (one, other))
    return first.startswith(second) or second.startswith(first)


def _shorten(heading: str) -> str:
    short = heading[:_LONGEST_HEADING].rsplit(" ", 1)[0]
    return heading if len(heading) <= _LONGEST_HEADING else f"{short} …"
