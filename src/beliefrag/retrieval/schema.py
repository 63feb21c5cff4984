"""How a passage lies in the tantivy index, and how it comes back out."""

from __future__ import annotations

from collections.abc import Sequence

import tantivy

from beliefrag.errors import CorpusError
from beliefrag.types import Passage

__all__ = ["ANALYSER", "CONTENT", "ID", "ORDER", "SOURCE", "checked", "index_schema", "to_document", "to_passage"]

ID = "id"
SOURCE = "source"
ORDER = "order"
CONTENT = "content"

ANALYSER = "en_stem"
"""Tantivy's own English analyser: words of letters and digits up to 40 bytes, lower case, stemmed."""

_LONGEST_ID = 512


def index_schema() -> tantivy.Schema:
    """Gives the fields of an index.

    Title and text are two values of one field, so that BM25 sees a single text with a single length while both come
    back apart. A passage can have several sources: the same row may stand in two files.
    """
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(ID, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(SOURCE, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field(ORDER, fast=True)
    builder.add_text_field(CONTENT, stored=True, tokenizer_name=ANALYSER, index_option="freq")
    return builder.build()


def checked(passage: Passage) -> Passage:
    """Gives the passage back if an index can hold it.

    Ids reach prompts, traces and terminals, so they are short and printable.

    Raises:
        CorpusError: The id is empty, too long or not printable.
    """
    if not passage.id or not passage.id.isprintable() or len(passage.id.encode()) > _LONGEST_ID:
        raise CorpusError(
            f"{passage.id[:80]!r} cannot be a passage id.",
            remedy=f"Give every passage an id of 1 to {_LONGEST_ID} bytes of printable characters.",
        )
    return passage


def to_document(passage: Passage, sources: Sequence[str]) -> tantivy.Document:
    """Gives what tantivy stores and indexes for a passage."""
    # The first eight bytes of the id as a number that sorts like the id (UTF-8 bytes sort like code points): hits of
    # equal score can then be ordered by id without fetching all of them.
    order = int.from_bytes(passage.id.encode()[:8].ljust(8, b"\0")) - (1 << 63)
    return tantivy.Document(id=passage.id, source=list(sources), order=order, content=[passage.title, passage.text])


def to_passage(document: tantivy.Document) -> tuple[Passage, tuple[str, ...]]:
    """Gives the passage that a stored document holds, and all its sources."""
    title, text = document[CONTENT]
    sources = tuple(document[SOURCE])
    return Passage(document[ID][0], title, text, sources[0] if sources else ""), sources
