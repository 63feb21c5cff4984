"""Text of other libraries as passages: data, with an id that stays the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from beliefrag.retrieval.text import clean_line, storable
from beliefrag.types import Passage

__all__ = ["foreign_passage", "metadata_of"]


def foreign_passage(
    text: str,
    metadata: Mapping[str, Any],
    *,
    identifier: str | None,
    title_keys: Sequence[str],
    source_keys: Sequence[str],
) -> Passage:
    """A passage from somebody else's document.

    Ids decide what is already retained and what was dropped for good, so a text without an id gets the hash of what
    it says: the same passage is the same one in every search.

    Args:
        text: What it says.
        metadata: What else its library keeps; only title and source are taken over.
        identifier: Its id, where it has one.
        title_keys: Where in the metadata a title may stand, the best place first.
        source_keys: The same for where it came from.
    """
    title = clean_line(_first(metadata, title_keys))
    body = storable(text)
    if not identifier:
        identifier = hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()[:32]
    return Passage(storable(identifier), title, body, clean_line(_first(metadata, source_keys)))


def metadata_of(passage: Passage, score: float | None = None) -> dict[str, Any]:
    """What another library's document should carry beside the text."""
    metadata: dict[str, Any] = {"id": passage.id, "title": passage.title, "source": passage.source}
    return metadata if score is None else metadata | {"score": score}


def _first(metadata: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((value for key in keys if isinstance(value := metadata.get(key), str) and value.strip()), "")
