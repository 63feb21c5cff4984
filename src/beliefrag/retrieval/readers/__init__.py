"""Readers of document formats, one file each, and the table that says which ending is read by which."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from beliefrag.retrieval.document import Complain, CorpusFile, Document, Reader, Unreadable

__all__ = ["FORMATS", "Complain", "CorpusFile", "Document", "Reader", "Unreadable", "format_of", "reader_for"]

FORMATS = {
    ".txt": "text_files.read_plain_text",
    ".text": "text_files.read_plain_text",
    ".md": "text_files.read_markdown",
    ".markdown": "text_files.read_markdown",
    ".html": "web_page.read_web_page",
    ".htm": "web_page.read_web_page",
    ".xhtml": "web_page.read_web_page",
    ".pdf": "pdf.read_pdf",
    ".docx": "docx.read_docx",
    ".csv": "rows.read_table",
    ".tsv": "rows.read_table",
    ".jsonl": "rows.read_jsonl",
    ".jsonl.gz": "rows.read_jsonl",
}
"""Which function of which module here reads a file, by the ending of the file's name."""


def format_of(name: str) -> str | None:
    """Gives the entry of `FORMATS` for a file of this name, or None when its format is not read."""
    lowered = name.lower()
    return next((reader for ending, reader in FORMATS.items() if lowered.endswith(ending)), None)


def reader_for(name: str) -> Reader | None:
    """Gives the reader for a file of this name, or None when its format is not read."""
    entry = format_of(name)
    if entry is None:
        return None
    # Imported when needed: the libraries for pdf and docx take a quarter of a second, which a search should not pay.
    module, _, function = entry.partition(".")
    return cast("Reader", getattr(import_module(f"{__name__}.{module}"), function))
