"""Plain text: the file is the text, its name the title."""

from __future__ import annotations

from collections.abc import Iterator

from beliefrag.retrieval.document import Complain, CorpusFile, Document
from beliefrag.retrieval.text import decode, read_limited

__all__ = ["read_plain_text"]


def read_plain_text(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Reads a text file in UTF-8, in any encoding with a byte-order mark, or in Windows-1252."""
    yield Document(file.name, file.stem, decode(read_limited(file.path)), file.source)
