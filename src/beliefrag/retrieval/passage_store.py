"""The directory in which tantivy keeps its segments: its fields, making it and opening it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from beliefrag.errors import CorpusError
from beliefrag.retrieval.document import ReadPassage
from beliefrag.retrieval.engine_errors import is_permission_denied
from beliefrag.types import Passage

__all__ = [
    "ANALYSER",
    "CONTENT",
    "ID",
    "KEY",
    "LINKS",
    "ORDER",
    "PLACE",
    "SOURCE",
    "PassageRow",
    "check_passage",
    "create_store",
    "dead_passages",
    "has_field",
    "index_schema",
    "open_searcher",
    "open_store",
    "opstamp",
    "passage_key",
    "sync_folder",
    "to_document",
    "to_links",
    "to_passage",
    "to_read_passage",
]

ID = "id"
SOURCE = "source"
ORDER = "order"
CONTENT = "content"
KEY = "key"
PLACE = "place"
LINKS = "links"

ANALYSER = "en_stem"
"""Tantivy's own English analyser: words of letters and digits up to 40 bytes, lower case, stemmed."""

_LONGEST_ID = 512


class PassageRow(NamedTuple):
    """A passage as the graph of names reads it."""

    key: int
    id: str
    title: str
    text: str
    source: str = ""
    links: str = ""
    """Anchors and links as JSON, as `ReadPassage` has them."""


def index_schema() -> tantivy.Schema:
    """Gives the fields of an index.

    Title and text are two values of one field, so that BM25 sees a single text with a single length while both come
    back apart. A passage can have several sources: the same row may stand in two files.
    """
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(ID, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(SOURCE, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field(ORDER, fast=True)
    builder.add_integer_field(KEY, fast=True)
    builder.add_text_field(PLACE, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field(LINKS, stored=True)
    builder.add_text_field(CONTENT, stored=True, tokenizer_name=ANALYSER, index_option="freq")
    return builder.build()


def check_passage(passage: Passage) -> Passage:
    """Gives the passage back if an index can hold it.

    Ids reach prompts, traces and terminals, so they are short and printable.

    Raises:
        CorpusError: The id is empty, too long or not printable.
    """
    name = passage.id
    # A character has four bytes at most, so the bytes of short ids need not be counted.
    if not name or not name.isprintable() or (4 * len(name) > _LONGEST_ID and len(name.encode()) > _LONGEST_ID):
        raise CorpusError(
            f"{passage.id[:80]!r} cannot be a passage id.",
            remedy=f"Give every passage an id of 1 to {_LONGEST_ID} bytes of printable characters.",
        )
    return passage


def passage_key(digest: int) -> int:
    """Gives the number by which the graph of names knows a passage, from the passage's digest."""
    return digest >> 193


def has_field(store: Path, name: str) -> bool:
    """Says whether the passages of a store have this field; a store of an older version may not have it."""
    return any(field["name"] == name for field in _read_meta(store)["schema"])


def to_document(
    passage: Passage,
    sources: Sequence[str],
    digest: int | None,
    *,
    with_place: bool = True,
    with_links: bool = True,
) -> tantivy.Document:
    """Gives what tantivy stores and indexes for a passage, with its key where the digest is given."""
    # The first eight bytes of the id as a number that sorts like the id (UTF-8 bytes sort like code points): hits of
    # equal score can then be ordered by id without fetching all of them.
    identifier = passage.id
    order = int.from_bytes(identifier[:8].encode()[:8].ljust(8, b"\0")) - (1 << 63)
    # Adding field by field takes half the time of giving all at once.
    document = tantivy.Document()
    document.add_text(ID, identifier)
    for source in sources:
        document.add_text(SOURCE, source)
    document.add_integer(ORDER, order)
    if digest is not None:
        document.add_integer(KEY, passage_key(digest))
    if with_place and passage.place:
        document.add_text(PLACE, passage.place)
    if with_links and isinstance(passage, ReadPassage) and passage.links:
        document.add_bytes(LINKS, passage.links.encode())
    document.add_text(CONTENT, passage.title)
    document.add_text(CONTENT, passage.text)
    return document


def to_passage(document: tantivy.Document) -> tuple[Passage, tuple[str, ...]]:
    """Gives the passage that a stored document holds, and all its sources."""
    title, text = document[CONTENT]
    sources = tuple(document[SOURCE])
    place = next(iter(document[PLACE]), "")
    return Passage(document[ID][0], title, text, sources[0] if sources else "", place), sources


def to_read_passage(document: tantivy.Document) -> tuple[Passage, tuple[str, ...]]:
    """Gives the same with the links of the passage, where it has any: all that is needed to store it again."""
    passage, sources = to_passage(document)
    links = document.get_first(LINKS)
    if not links:
        return passage, sources
    read = ReadPassage(passage.id, passage.title, passage.text, passage.source, passage.place, to_links(links))
    return read, sources


def to_links(stored: Iterable[int]) -> str:
    """Gives the anchors and links of a passage as they were, from what the engine stores."""
    return bytes(stored).decode()


def create_store(store: Path) -> None:
    """Makes an empty store, whole or not at all; does nothing when it is there already.

    It is made beside its place and renamed, so that two processes which create an index at the same moment can never
    empty one that the other has already filled.
    """
    if store.exists():
        return
    with tempfile.TemporaryDirectory(prefix="new-", dir=store.parent, ignore_cleanup_errors=True) as beside:
        fresh = Path(beside) / "store"
        fresh.mkdir()
        tantivy.Index(index_schema(), path=str(fresh))
        try:
            fresh.rename(store)
        except OSError:
            if not store.exists():
                raise


def open_store(store: Path) -> tantivy.Index:
    """Opens an existing store for writing or reading."""
    return tantivy.Index.open(str(store))


def open_searcher(store: Path) -> tuple[tantivy.Searcher, tantivy.Schema]:
    """Gives a view of the store as it is now, which later commits do not change.

    Tantivy takes a lock file even to read. Where the directory is read-only (a container image, somebody else's
    index), it is opened through a passing folder of links; the segments themselves are mapped from where they lie.
    """
    try:
        index = open_store(store)
    except ValueError as problem:
        if not is_permission_denied(problem):
            raise
        with tempfile.TemporaryDirectory(prefix="beliefrag-", ignore_cleanup_errors=True) as links:
            for file in store.iterdir():
                if not file.name.endswith(".lock"):
                    (Path(links) / file.name).symlink_to(file.resolve())
            index = open_store(Path(links))
            return index.searcher(), index.schema
    return index.searcher(), index.schema


def sync_folder(folder: Path) -> None:
    """Makes a rename within a folder survive a loss of power, where the system can promise that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def opstamp(store: Path) -> int:
    """Gives the number of the last commit: it grows with every commit, and with nothing else."""
    return int(_read_meta(store)["opstamp"])


def dead_passages(store: Path) -> int:
    """Gives how many deleted passages the segments still carry, and count in their statistics."""
    return sum(int((segment["deletes"] or {}).get("num_deleted_docs", 0)) for segment in _read_meta(store)["segments"])


def _read_meta(store: Path) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads((store / "meta.json").read_text("utf-8"))
    return meta
