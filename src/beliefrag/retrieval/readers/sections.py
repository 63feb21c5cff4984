"""Sections below headings and entries, which the texts of all formats are cut into."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from beliefrag.retrieval.documents import TARGET, CorpusFile, Document, Mark, TextItem, clean_line, count_words

ENTRY = 10
"""The level of an entry of a list of definitions; entries of lists in lists are deeper. Headings have 1 to 6."""

_LONGEST_HEADING = 80
_SMALL = 25
_NOT_WORD = re.compile(r"[\W_]+")


@dataclass(slots=True)
class _Section:
    path: tuple[str, ...] = ()
    heading: str = ""
    is_entry: bool = False
    items: list[TextItem] = field(default_factory=list)

    def count_words(self) -> int:
        return count_words("".join(item for item in self.items if isinstance(item, str)))


class Outline:
    """Gathers the text of a document section by section."""

    def __init__(self) -> None:
        self._path: list[tuple[int, str]] = []
        self._waiting: list[Mark] = []
        """Anchors and links before the next words."""
        self.sections = [_Section()]

    def add(self, text: str, line: int = 0) -> None:
        """Add text to the current section, with its line in the file if it is known."""
        items = self.sections[-1].items
        if text.strip():
            items += [*self._waiting, line] if line else self._waiting
            self._waiting = []
        items.append(text)

    def mark(self, *, anchor: str | None = None, target: str = "", words: str = "") -> None:
        """Record an anchor of what follows, or a link whose words follow."""
        self._waiting.append(Mark(anchor, target, words))

    def begin(self, level: int, heading: str) -> None:
        """Begin the section of a heading, which ends all sections of its level and of deeper ones."""
        # Generators of pages add such signs as links to the heading itself.
        heading = clean_line(heading).rstrip("¶\uf0c1 ")
        self._path = [each for each in self._path if each[0] < level] + [(level, heading)] * bool(heading)
        is_entry = bool(self._path) and self._path[-1][0] >= ENTRY
        self.sections.append(_Section(tuple(each for _, each in self._path), heading, is_entry))

    def end(self, level: int) -> None:
        """End all sections of a level and of deeper ones: what follows belongs to the section around them."""
        if any(each[0] >= level for each in self._path):
            self.begin(level, "")

    def items(self) -> list[TextItem]:
        """Return all text in its order, headings too."""
        each = (item for section in self.sections for item in (f"\n\n{section.heading}\n\n", *section.items))
        return [*each, *self._waiting]

    def documents(
        self, file: CorpusFile, title: str, whole: str | None = None, *, keep_small: bool = False
    ) -> Iterator[Document]:
        """Yield the sections as documents whose titles are the path to them: `Title > Heading > Entry`.

        A document that fits into one passage and has one heading at most stays one, with the text `whole` or that of
        the outline. A section of a few words stays with the one before it, unless `keep_small`: pages of manuals have
        many that say nothing alone. A heading that repeats the title is left out.
        """
        start = Mark(anchor="")
        document = file.document(title, [start, *self.items()])
        headings = {section.path for section in self.sections if section.path and section.count_words()}
        text = document.text if whole is None else whole
        if count_words(text) <= TARGET and not (keep_small and len(headings) > 1):
            yield replace(document, text=text)
            return
        for number, (path, items) in enumerate(_join_small(self.sections, keep_small=keep_small)):
            way = [document.title]
            for heading in path:
                if not _same(way[-1], heading):
                    way.append(_shorten(heading))
            yield file.document(" > ".join(way), items if number else [start, *items])


def _join_small(sections: list[_Section], *, keep_small: bool) -> Iterator[tuple[tuple[str, ...], list[TextItem]]]:
    path: tuple[str, ...] = ()
    items: list[TextItem] = []
    words, above = 0, list[str]()
    for section in sections:
        own, size = section.path, section.count_words()
        if not size:
            # Several entries share one explanation, or headings follow each other: the last one has the text.
            above += [section.path[-1]] if section.path and section.is_entry else []
            continue
        if above and section.is_entry:
            own, above = (*own[:-1], ", ".join([*above, own[-1]])), []
        size += sum(map(count_words, above))
        if items and own != path:
            if not keep_small and size < _SMALL:
                lead = [each for each in own[-1:] if each not in path]
                own, above, size = path, lead + above, size + sum(map(count_words, lead))
            elif keep_small or words >= _SMALL or own[: len(path)] != path:
                yield path, items
                items, words = [], 0
        path, words = own, words + size
        items += ["\n\n".join(["", *above, ""]), *section.items]
        above = []
    items.append("\n\n".join(["", *above]))
    if words or above:
        yield path, items


def _same(one: str, other: str) -> bool:
    first, second = (_NOT_WORD.sub("", each).lower() for each in (one, other))
    return first.startswith(second) or second.startswith(first)


def _shorten(heading: str) -> str:
    short = heading[:_LONGEST_HEADING].rsplit(" ", 1)[0]
    return heading if len(heading) <= _LONGEST_HEADING else f"{short} …"
