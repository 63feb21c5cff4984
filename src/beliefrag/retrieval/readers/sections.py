"""Sections of a document: what stands below a heading, or explains an entry such as an option, with the way to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from beliefrag.retrieval.chunk import TARGET, count_words
from beliefrag.retrieval.document import CorpusFile, Document
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


class Outline:
    """Gathers the text of a document section by section while a reader walks through it."""

    def __init__(self) -> None:
        self._path: list[tuple[int, str]] = []
        self._whole: list[str] = []
        self.sections = [_Section((), is_entry=False)]

    def whole_text(self) -> str:
        """All text in its order, headings too, its blocks apart."""
        blocks = (block.strip() for block in "".join(self._whole).split("\n\n"))
        return "\n\n".join(block for block in blocks if block)

    def add(self, text: str) -> None:
        """Adds text to the section in hand."""
        self.sections[-1].text.append(text)
        self._whole.append(text)

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
    if count_words(text) <= TARGET:
        yield Document(file.name, title, text, file.source)
        return
    for path, text in _join_small(outline.sections):
        way = [title]
        for heading in path:
            if not _same(way[-1], heading):
                way.append(_shorten(heading))
        yield Document(file.name, " > ".join(way), text, file.source)


def _join_small(sections: Iterable[_Section]) -> Iterator[tuple[tuple[str, ...], str]]:
    path: tuple[str, ...] = ()
    gathered = ""
    aliases: list[str] = []
    for section in sections:
        text = _BLANK_LINES.sub("\n\n", "".join(section.text)).strip()
        heading = section.path[-1] if section.path else ""
        if not text:
            # Several entries share one explanation, or headings follow each other: the last one has the text.
            if heading and section.is_entry:
                aliases.append(heading)
            continue
        own = section.path
        if aliases and section.is_entry:
            own = (*own[:-1], ", ".join([*aliases, heading]))
        elif aliases:
            text = "\n\n".join([*aliases, text])
        aliases = []
        if not gathered:
            path, gathered = own, text
        elif own == path:
            gathered = f"{gathered}\n\n{text}"
        elif count_words(text) < _SMALL:
            lead = f"{own[-1]}\n\n" if own and own[-1] not in path else ""
            gathered = f"{gathered}\n\n{lead}{text}"
        elif count_words(gathered) < _SMALL and own[: len(path)] == path:
            gathered = f"{gathered}\n\n{text}"
            path = own
        else:
            yield path, gathered
            path, gathered = own, text
    rest = "\n\n".join([each for each in (gathered, *aliases) if each])
    if rest:
        yield path, rest


def _same(one: str, other: str) -> bool:
    first, second = (_NOT_WORD.sub("", each).lower() for each in (one, other))
    return first.startswith(second) or second.startswith(first)


def _shorten(heading: str) -> str:
    if len(heading) <= _LONGEST_HEADING:
        return heading
    return f"{heading[:_LONGEST_HEADING].rsplit(' ', 1)[0]} …"
