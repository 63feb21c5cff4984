"""Readers of document formats, one file each, and the table that says which ending is read by which."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from beliefrag.retrieval.document import Complain, CorpusFile, Document, Reader, Unreadable

__all__ = ["FORMATS", "Complain", "CorpusFile", "Document", "Reader", "Unreadable", "format_of", "reader_for"]

FORMATS = {
    ".txt": "plain_text",
    ".text": "plain_text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "web_page",
    ".htm": "web_page",
    ".xhtml": "web_page",
    ".pdf": "pdf",
    ".docx": "docx",
    ".csv": "table",
    ".tsv": "table",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
}
"""The module here that reads a file, by the ending of the file's name."""


def format_of(name: str) -> str | None:
    """Gives the module that reads a file of this name, or None when its format is not read."""
    lowered = name.lower()
    return next((module for ending, module in FORMATS.items() if lowered.endswith(ending)), None)


def reader_for(name: str) -> Reader | None:
    """Gives the reader for a file of this name, or None when its format is not read."""
    module = format_of(name)
    if module is None:
        return None
    # Loaded on need: the libraries for pdf and docx take a quarter of a second, which a search should not pay.
    return cast("Reader", getattr(import_module(f"{__name__}.{module}"), f"read_{module}"))
