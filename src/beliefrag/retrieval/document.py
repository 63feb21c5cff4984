"""The input and the output of a reader: a file, and the documents in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from beliefrag.errors import CorpusError

__all__ = ["Complain", "CorpusFile", "Document", "Reader", "Unreadable"]


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


Complain = Callable[[str], None]
"""Called by a reader with what it had to leave out of a file, such as a broken line."""

Reader = Callable[[CorpusFile, Complain], Iterator[Document]]
"""Turns a file into documents; raises `Unreadable` when nothing can be read from it."""
