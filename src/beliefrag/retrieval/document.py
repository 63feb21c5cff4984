"""The input and the output of a reader: a file, and the documents in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from beliefrag.errors import CorpusError
from beliefrag.types import Passage

__all__ = [
    "Complain",
    "CorpusFile",
    "Document",
    "Mark",
    "ReadPassage",
    "Reader",
    "Unreadable",
    "count_visible",
    "links_of",
]


_ENDING = re.compile(r"(?<=.)\.[A-Za-z]\w*(?:\.gz)?$")


class Unreadable(CorpusError):
    """A file whose text cannot be read; the message is the reason, without the file's name."""


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """A file to be read."""

    path: Path
    """Where it lies. May hold any bytes, so it is opened but never shown."""
    name: str
    """Its path below the folder that was given, printable: names the document, wherever the folder lies."""
    source: str
    """Its whole path, printable: what people are shown."""

    @property
    def stem(self) -> str:
        """The file's name without folders and ending, used where there is no better title."""
        return _ENDING.sub("", PurePosixPath(self.name).name) or self.name


@dataclass(frozen=True, slots=True)
class Mark:
    """A place of a text that links know: an anchor that links lead to, or a link. Exactly one of the two is set."""

    offset: int
    """How many characters other than white space stand before it."""
    anchor: str | None = None
    """The name that links call the place by; empty for the beginning of a file."""
    target: str = ""
    """Where the link leads, as it is written."""
    words: str = ""
    """The words of the link."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text with a title: a whole file, or one row of a table of texts."""

    id: str
    title: str
    text: str
    source: str
    own_id: bool = False
    """Whether the id was given by the author of the corpus; passages then keep it."""
    place: str = ""
    """Where the whole of it stands in its file, for people, such as `row 12`."""
    pages: tuple[int, ...] = ()
    """Where each page begins in the text, where it has pages."""
    lines: Sequence[tuple[int, int]] = ()
    """Lines of the file that the text has: characters other than white space before each, and its number."""
    marks: tuple[Mark, ...] = ()
    """Anchors and links in the order of the text."""


@dataclass(frozen=True, slots=True)
class ReadPassage(Passage):
    """A passage as it was read, with what only the graph of names needs; a search gives it back without."""

    links: str = ""
    """Its anchors and links as JSON, empty where it has none: `{"anchors": [...], "links": [[target, words], ...]}`."""


def links_of(passage: Passage) -> str:
    """Gives the anchors and links of a passage as JSON, empty where it has none or they were left out."""
    return passage.links if isinstance(passage, ReadPassage) else ""


def count_visible(text: str) -> int:
    """Gives how many characters other than white space a text has: cutting and joining texts does not change it."""
    return sum(map(len, text.split()))


Complain = Callable[[str], None]
"""Called by a reader with what it had to leave out of a file, such as a broken line."""

Reader = Callable[[CorpusFile, Complain], Iterator[Document]]
"""Turns a file into documents; raises `Unreadable` when nothing can be read from it."""
