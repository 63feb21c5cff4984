"""Passages as LangChain documents."""

from __future__ import annotations

from langchain_core.documents import Document

from beliefrag.integrations.passages import metadata_of
from beliefrag.types import Passage

__all__ = ["document_of"]


def document_of(passage: Passage, score: float | None = None) -> Document:
    """The passage with its title, source and score in the metadata."""
    return Document(page_content=passage.text, id=passage.id, metadata=metadata_of(passage, score))
