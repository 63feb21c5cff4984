"""Sections of a document: what stands below a heading, or explains an entry such as an option, with the way to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from beliefrag.retrieval.chunk import TARGET, count_words
from beliefrag.retrieval.document import CorpusFile, Document, Mark, count_visible
from beliefrag.retrieval.text import clean_line

__all__ = ["ENTRY", "Outline", "write_documents"]

ENTRY = 10
"""The level of an entry of a list of definitions; entries of lists in lists are deeper. Headings have 1 to 6."""

_LONGEST_HEADING = 80
_SMALL = 25
_BLANK_LINES = re.compile(r"\n\s*\n")
_NOT_WORD = re.compile(r"[\W_]+")


@dataclass(slots=True)
class _Section:
    path: tuple[str, ...]
    is_entry: bool
    text: list[str] = field(default_factory=list)
    seen: int = 0
    """How many characters other than white space its text has so far."""
    lines: list[tuple[int, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


class Outline:
    """Gathers the text of a document section by section while a reader walks through it."""

    def __init__(self) -> None:
        self._path: list[tuple[int, str]] = []
        self._whole: list[str] = []
        self._waiting: list[Mark] = []
        """Anchors and links that stand before the next words."""
        self.sections = [_Section((), is_entry=False)]

    def whole_text(self) -> str:
        """All text in its order, headings too, its blocks apart."""
        blocks = (block.strip() for block in "".join(self._whole).split("\n\n"))
        return "\n\n".join(block for block in blocks if block)

    def add(self, text: str, line: int = 0) -> None:
        """Adds text to the section in hand; a reader that knows says in which line of the file it stands."""
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

    def mark_anchor(self, name: str) -> None:
        """Notes that links call what follows by this name."""
        self._waiting.append(Mark(0, anchor=name))

    def mark_link(self, target: str, words: str) -> None:
        """Notes a link whose words follow, or stand in the heading of what follows."""
        self._waiting.append(Mark(0, target=target, words=words))

    def begin(self, level: int, heading: str) -> None:
        """Begins the section of a heading, which ends all sections of its level and of deeper ones."""
        self._path = [each for each in self._path if each[0] < level]
        # Signs for a link to the heading itself, which many generators of pages put there.
        heading = clean_line(heading).rstrip("¶\uf0c1 ")
        if heading:
            self._path.append((level, heading))
            self._whole.append(f"\n\n{heading}\n\n")
        self._start(is_entry=level >= ENTRY)

    def end(self, level: int) -> None:
        """Ends all sections of a level and of deeper ones: what follows belongs to the section around them."""
        if any(each[0] >= level for each in self._path):
            self._path = [each for each in self._path if each[0] < level]
            self._start(is_entry=bool(self._path) and self._path[-1][0] >= ENTRY)

    def _start(self, *, is_entry: bool) -> None:
        self.sections.append(_Section(tuple(heading for _, heading in self._path), is_entry))

    def all_marks(self) -> tuple[Mark, ...]:
        """All anchors and links in their order; their places are those in their sections."""
        return (*(mark for section in self.sections for mark in section.marks), *self._waiting)

    def all_lines(self) -> list[int]:
        """The numbers of all lines that are known, in their order."""
        return [number for section in self.sections for _, number in section.lines]


def write_documents(file: CorpusFile, title: str, outline: Outline, whole: str | None = None) -> Iterator[Document]:
    """Gives the sections as documents whose titles are the way to them: `Title > Heading > Entry`.

    A document that fits into one passage stays one. A section of a few words says little alone: it stays in the text
    of the section before it, under its heading. A heading that says what the title says is not repeated.

    Args:
        file: The file in hand.
        title: What the document is called.
        outline: Its sections.
        whole: Its text where it is one passage; by default that of the outline.
    """
    text = outline.whole_text() if whole is None else whole
    start = Mark(0, anchor="")
    if count_words(text) <= TARGET:
        numbers = outline.all_lines()
        # One passage holds it all, so of the lines only the first and the last matter.
        lines = [(0, numbers[0]), (max(count_visible(text) - 1, 1), numbers[-1])] if numbers else []
        yield Document(
            file.name, title, text, file.source, lines=lines, marks=_place_marks(0, (start, *outline.all_marks()))
        )
        return
    for number, part in enumerate(_join_small(outline.sections)):
        way = [title]
        for heading in part.path:
            if not _same(way[-1], heading):
                way.append(_shorten(heading))
        marks = part.marks if number else [start, *part.marks]
        yield Document(file.name, " > ".join(way), part.text, file.source, lines=part.lines, marks=tuple(marks))


@dataclass(slots=True)
class _Part:
    """The text of one section or of several small ones, with the places in it that are known."""

    path: tuple[str, ...] = ()
    text: str = ""
    lines: list[tuple[int, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def add(self, text: str, section: _Section, lead: str = "") -> None:
        """Adds the text of a section below what is there, after some words of its own."""
        before = count_visible(self.text) + count_visible(lead)
        self.lines += [(offset + before, number) for offset, number in section.lines]
        self.marks += [replace(mark, offset=mark.offset + before) for mark in section.marks]
        self.text = "\n\n".join([each for each in (self.text, lead, text) if each])


def _place_marks(offset: int, marks: Iterable[Mark]) -> tuple[Mark, ...]:
    return tuple(replace(mark, offset=offset) for mark in marks)


def _join_small(sections: Sequence[_Section]) -> Iterator[_Part]:
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
        words = count_words(f"{above} {text}")
        if not part.text:
            part.path = own
            part.add(text, section, above)
        elif own == part.path:
            part.add(text, section, above)
        elif words < _SMALL:
            lead = own[-1] if own and own[-1] not in part.path else ""
            part.add(text, section, "\n\n".join([each for each in (lead, above) if each]))
        elif count_words(part.text) < _SMALL and own[: len(part.path)] == part.path:
            part.add(text, section, above)
            part.path = own
        else:
            yield part
            part = _Part(own)
            part.add(text, section, above)
    part.text = "\n\n".join([each for each in (part.text, *aliases) if each])
    if part.text:
        yield part


def _same(one: str, other: str) -> bool:
    first, second = (_NOT_WORD.sub("", each).lower() for each in (one, other))
    return first.startswith(second) or second.startswith(first)


def _shorten(heading: str) -> str:
    if len(heading) <= _LONGEST_HEADING:
        return heading
    return f"{heading[:_LONGEST_HEADING].rsplit(' ', 1)[0]} …"
