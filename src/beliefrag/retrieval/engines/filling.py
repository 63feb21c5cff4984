"""Fills an index on an engine elsewhere with the passages of documents.

The documents are read into an index in the cache; what the engine lacks of it is then written by passage id, so a run
that was cut off is completed by running it again. Passages from files outside the given paths stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from beliefrag.errors import SettingsError
from beliefrag.retrieval.documents import Unreadable
from beliefrag.retrieval.engines.engine_retriever import metadata_of
from beliefrag.retrieval.indexing import (
    IndexProgress,
    IndexReport,
    OnProgress,
    Paths,
    docs_index,
    find_files,
    list_paths,
)
from beliefrag.retrieval.isolation import open_regular
from beliefrag.retrieval.protocol import RETRIEVERS
from beliefrag.retrieval.store import CorpusState, passage_digest
from beliefrag.settings import cache_dir
from beliefrag.types import Passage, Reading

if TYPE_CHECKING:
    from beliefrag.retrieval.engines.opensearch import OpenSearchWriter
    from beliefrag.retrieval.engines.postgres import PostgresWriter

_BLOCK = 5_000
EngineWriter: TypeAlias = "OpenSearchWriter | PostgresWriter"
"""An index that is open to be filled; it is made if it does not exist."""
_WRITERS = {"opensearch": "OpenSearchWriter", "postgres": "PostgresWriter"}


class Held(NamedTuple):
    """What an index holds under an id: the digest of the passage, its sources and its metadata."""

    digest: int
    sources: tuple[str, ...]
    metadata: tuple[str, ...] = ()


@dataclass
class Changes:
    """Passages to insert or replace, new sources of passages by id, and ids to remove, written together."""

    puts: list[tuple[Passage, Held]] = field(default_factory=list)
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.puts) + len(self.sources) + len(self.removed)


class Filled(NamedTuple):
    """What filling an index did; a changed passage counts as added and as removed."""

    added: int
    removed: int
    state: CorpusState


def fill(
    writer: EngineWriter,
    passages: Iterable[Sequence[tuple[Passage, tuple[str, ...]]]],
    is_ours: Callable[[str], bool],
    on_block: Callable[[int], None] = lambda _: None,
) -> Filled:
    """Make these passages exactly what an index holds from our sources, and close it; what came from others stays.

    A passage that others hold too is stored once. If others hold another passage under its id, it gets an id of its
    own: the id, `~` and eight digits of its content.
    """
    try:
        with writer.explain_errors():
            kept: set[str] = set()
            added = replaced = 0
            for block in passages:
                changes = Changes()
                held = dict(writer.find([passage.id for passage, _ in block]))
                for given, sources in block:
                    passage, new = _choose_id(given, sources, writer, held, is_ours)
                    old = held.get(passage.id)
                    kept.add(passage.id)
                    if old is None or (old.digest, old.metadata) != (new.digest, new.metadata):
                        changes.puts.append((passage, new))
                        replaced += old is not None
                    elif set(old.sources) != set(new.sources):
                        changes.sources[passage.id] = new.sources
                added += len(changes.puts)
                if len(changes):
                    writer.write(changes)
                on_block(len(kept))
            removed, state = _remove_stale(writer, kept, is_ours)
            writer.finish(state, replaced + removed)
            return Filled(added, replaced + removed, state)
    finally:
        writer.close()


def _choose_id(
    passage: Passage,
    sources: tuple[str, ...],
    writer: EngineWriter,
    held: dict[str, Held],
    is_ours: Callable[[str], bool],
) -> tuple[Passage, Held]:
    while True:
        digest, old = passage_digest(passage), held.get(passage.id)
        others = tuple(source for source in old.sources if not is_ours(source)) if old else ()
        if old is None or old.digest == digest or not others:
            return passage, Held(digest, tuple(dict.fromkeys((*sources, *others))), metadata_of(passage))
        passage = replace(passage, id=f"{passage.id}~{digest >> 224:08x}")
        held.update(writer.find([passage.id]))


def _remove_stale(writer: EngineWriter, kept: set[str], is_ours: Callable[[str], bool]) -> tuple[int, CorpusState]:
    """Take our sources from all passages but those kept, remove what has no source left, and sum up the rest."""
    count = total = removed = 0
    changes = Changes()
    for passage_id, held in writer.read_all():
        if len(changes) >= _BLOCK:
            writer.write(changes)
            changes = Changes()
        rest = tuple(source for source in held.sources if not is_ours(source))
        if passage_id not in kept and rest != held.sources:
            if not rest:
                changes.removed.append(passage_id)
                removed += 1
                continue
            changes.sources[passage_id] = rest
        count += 1
        total += held.digest
    if len(changes):
        writer.write(changes)
    return removed, CorpusState.from_sum(count, total)


def index_paths_to(
    paths: Paths,
    to: str,
    *,
    progress: OnProgress | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    on: str | None = None,
    reading: Reading = Reading(),
) -> IndexReport:
    """Index all documents below some paths on an engine elsewhere; run it again to take in what changed.

    `to` names engine and index as a retriever is named: `postgres:url=postgresql://host/db,table=passages`.
    """
    given = list_paths(paths)
    choice = RETRIEVERS.choose(to, options)
    if choice.name not in _WRITERS:
        raise SettingsError(
            f"Documents cannot be put into {choice.name!r}.", remedy=f"Known engines: {', '.join(_WRITERS)}."
        )
    module = import_module(f"beliefrag.retrieval.engines.{choice.name}")
    # Opened first: an engine that cannot be reached is reported before documents are read.
    writer: EngineWriter = getattr(module, _WRITERS[choice.name])(choice.options)
    try:
        found = find_files(given, follow_links=reading.follow_links)
        index, report = docs_index(given, cache_dir(), progress=progress, on=on, reading=reading)
    except BaseException:
        writer.close()
        raise
    read = {file.source: file for file in found.files.values()}

    @cache
    def is_ours(source: str) -> bool:
        if source not in read:
            return found.has_lost(source)
        try:
            open_regular(read[source].path).close()
        except (OSError, Unreadable):
            return False  # Its content is unknown, so what the engine has of it stays.
        return True

    report_block = progress or (lambda _: None)
    blocks = index.read_passages()
    filled = fill(writer, blocks, is_ours, lambda done: report_block(IndexProgress(len(read), len(read), done, "")))
    return replace(
        report,
        passages_added=filled.added,
        passages_removed=filled.removed,
        passages_total=filled.state.passages,
        fingerprint=filled.state.fingerprint,
    )
