"""The card of a dataset: its content, its licence and source, and the hashes of its files."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Card", "CardFile"]


class CardFile(BaseModel):
    """One file that was read or written, or all files that were read from one folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """The file's name, without its folder: that is private."""
    sha256: str
    """Of many files: that of their own hashes and names, a line each, as `sha256sum` writes them, sorted by name."""
    bytes: int = Field(ge=0)
    files: int = Field(default=1, ge=1)


class Card(BaseModel):
    """The content of `card.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str = ""
    licence: str = ""
    source: str = ""
    """Where the published files come from, for people."""
    format: str = ""
    """The published format that was imported; empty for files that were in the common form already."""
    questions: int = Field(default=0, ge=0)
    passages: int = Field(default=0, ge=0)
    splits: Mapping[str, int] = {}
    with_supporting: int = Field(default=0, ge=0)
    """Questions whose supporting passages are known."""
    skipped: tuple[str, ...] = ()
    """Records that could not be read and were left out on request, each with its place and the reason."""
    notes: tuple[str, ...] = ()
    inputs: tuple[CardFile, ...] = ()
    outputs: tuple[CardFile, ...] = ()
    made_by: str = ""
