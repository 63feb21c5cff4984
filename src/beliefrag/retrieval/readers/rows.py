"""What tables of texts have in common: rows that bring a text, and perhaps an id and a title of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beliefrag.retrieval.document import CorpusFile, Document
from beliefrag.retrieval.text import clean_line, storable

__all__ = ["BadRow", "row_document"]


class BadRow(Exception):
    """A row that gives no document; the message says why."""


def row_document(file: CorpusFile, row: Mapping[str, Any]) -> Document:
    """Gives the document in a row with a `text` and perhaps an `id` and a `title`.

    The text stays as it is written, so that a benchmark's passages are indexed letter for letter.

    Raises:
        BadRow: The row has no text, or a field has the wrong type.
    """
    text, title, own = row.get("text"), row.get("title"), row.get("id")
    if not isinstance(text, str) or not storable(text).strip():
        raise BadRow("has no text")
    if not isinstance(title, str | None):
        raise BadRow("has a title that is not text")
    if not isinstance(own, str | int | None) or isinstance(own, bool):
        raise BadRow("has an id that is neither text nor a whole number")
    identity = "" if own is None else str(own).strip()
    if not identity.isprintable() or len(identity.encode("utf-8", "replace")) > 400:
        raise BadRow("has an id that is not printable or too long")
    own_id = bool(identity)
    return Document(identity if own_id else file.name, clean_line(title or ""), text, file.source, own_id)
