"""Change an index on disk: one writer at a time, in commits that a kill cannot tear."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import tantivy

from beliefrag.errors import CorpusError
from beliefrag.retrieval import store
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.documents import links_of, printable_path
from beliefrag.retrieval.store import MANIFEST, STORE, CorpusState, IndexedFile, explain_write_errors, is_disk_refusal
from beliefrag.types import Passage

if TYPE_CHECKING:
    from beliefrag.retrieval.linked.build import MapBlocks


HEAP = 128_000_000
"""Bytes that tantivy gathers in memory before it writes a segment."""
THREADS = min(4, os.cpu_count() or 1)
"""Threads that tantivy indexes with; more make more segments, which slow down every search."""
QUICKLY_REWRITTEN = 20_000
"""How many passages an index may have that is rewritten whenever a passage was deleted."""

_PAGE = 10_000
_OURS = re.compile(rf"new-.+|names-[0-9a-f]{{32}}|{STORE}")
"""What a folder may hold before it has a manifest: a graph of names can be made before passages are."""


class IndexBusy(CorpusError):
    """Another writer is at work on the index."""


class PassageChange(NamedTuple):
    """How many passages an operation added and removed; a changed passage counts in both."""

    added: int
    removed: int


class _Stored(NamedTuple):
    """What the index holds under an id. Place and metadata are those in the first source."""

    digest: int
    sources: tuple[str, ...]
    place: str
    metadata: tuple[tuple[str, str], ...]
    links: str


class IndexWriter:
    """Add, replace and delete passages of an index on disk, whose folder is made if it does not exist.

    Readers see nothing before a commit, which also happens when a batch is full. What is uncommitted when the process
    dies is lost, and the lock with it. A context manager commits at its end, except after an exception.

    Raises:
        IndexBusy: Another writer is at work.
    """

    batch = 50_000
    """After how many changed passages the writer commits by itself."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise CorpusError(
                f"{printable_path(self.path)} is a file, not a folder.", remedy="Name a folder for the index."
            )
        with explain_write_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if (self.path / MANIFEST).exists():
                store.read_snapshot(self.path)
            else:
                _check_empty(self.path)
                store.create_store(self.path)
            self._index = _open_store(self.path)
            self._engine = self._take_lock()
            for leftover in self.path.glob("new-*"):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
            if not (self.path / MANIFEST).exists():
                store.write_manifest(self.path, store.EMPTY, store.EMPTY, {}, {}, expects_commit=False)
            self._committed = store.read_snapshot(self.path).state
            self._files = store.read_files(self.path)
            self._failed = False
            self._begin_batch()
            store.check_count(self.path, self._searcher, self._committed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()

    def __len__(self) -> int:
        return self._passages

    @property
    def fingerprint(self) -> str:
        """The fingerprint that the index will have after the next commit."""
        return self._state.fingerprint

    @property
    def uncommitted(self) -> int:
        """How many passages were added or removed since the last commit."""
        return len(self._pending)

    @property
    def files(self) -> Mapping[str, IndexedFile]:
        """The indexed files by path, as of the last commit."""
        return self._files

    def record(self, path: str, record: IndexedFile | None) -> None:
        """Record with the next commit that a file is indexed in this state, or (None) no longer."""
        self._changed_files[path] = record

    def add(self, passages: Iterable[Passage]) -> PassageChange:
        """Add passages; one with a known id replaces the passage that has it."""
        added = removed = 0
        for passage in passages:
            with explain_write_errors(self.path):
                new = _Stored(
                    _checked_digest(passage), (passage.source,), passage.place, passage.metadata, links_of(passage)
                )
                held = self._find_stored(passage.id)
                if held != new:
                    added += 1
                    removed += held is not None
                    self._put(passage, new, held)
        return PassageChange(added, removed)

    def delete(self, ids: Iterable[str]) -> int:
        """Delete passages by id and return how many of them the index held."""
        count = 0
        for passage_id in ids:
            with explain_write_errors(self.path):
                if held := self._find_stored(passage_id):
                    self._drop(passage_id, held)
                    count += 1
        return count

    def put_source(self, source: str, passages: Iterable[Passage]) -> PassageChange:
        """Make these passages exactly what the index holds from a source; none at all removes the source.

        A passage that another source holds too is stored once, and stays until its last source is gone. Where the id is
        taken by other content, the passage gets an id of its own: the id, `~` and eight digits of its content.
        """
        added = removed = 0
        with explain_write_errors(self.path):
            stale = self._ids_of(source)
        for given in passages:
            with explain_write_errors(self.path):
                passage, new, held = self._choose_id(given, source, stale)
                stale.discard(passage.id)
                if held is None or held.digest != new.digest:
                    added += 1
                    removed += held is not None
                if held != new:
                    self._put(passage, new, held)
        with explain_write_errors(self.path):
            for passage_id in sorted(stale):
                removed += self._remove_source(passage_id, source)
        return PassageChange(added, removed)

    def commit(self) -> None:
        """Make all changes visible and safe; after an error the writer is of no further use."""
        if self._failed:
            raise CorpusError(
                f"Writing the index {printable_path(self.path)} failed before.", remedy="Open it again to go on."
            )
        if not self._pending and not self._changed_files:
            return
        with explain_write_errors(self.path):
            state, has_passages = self._state, bool(self._pending)
            store.write_manifest(
                self.path, self._committed, state, self._files, self._changed_files, expects_commit=has_passages
            )
            if self._links_changed:
                # The fingerprint does not cover links: a graph for these texts may have others.
                shutil.rmtree(self.path / f"names-{state.fingerprint}", ignore_errors=True)
            if has_passages:
                self._commit_engine()
            self._committed = state
            self._files = store.change_files(self._files, self._changed_files)
            self._begin_batch()

    def compact(self) -> bool:
        """Rewrite the index without deleted passages, which BM25 counts in its statistics; return whether it was done.

        It is done when it takes about a second or when the dead are more than a tenth of the living.
        """
        self.commit()
        with explain_write_errors(self.path):
            dead = store.dead_passages(self.path)
            if not dead or len(self) > max(QUICKLY_REWRITTEN, 10 * dead - 1):
                return False
            store.write_manifest(self.path, self._committed, self._committed, self._files, {}, expects_commit=False)
            self._engine.delete_documents_by_query(tantivy.Query.all_query())
            for start in range(0, self._searcher.num_docs, _PAGE):
                for passage, sources in self._find_passages(tantivy.Query.all_query(), _PAGE, start):
                    self._engine.add_document(store.to_document(passage, sources, store.passage_digest(passage)))
            self._commit_engine()
            self._begin_batch()
        return True

    def write_graph(self, map_blocks: MapBlocks = map) -> bool:
        """Make the graph of names for linked retrieval, and return whether it was missing."""
        # A search by words does not wait for the import of numpy.
        from beliefrag.retrieval.linked.linked_retriever import write_graph  # noqa: PLC0415

        self.commit()
        with explain_write_errors(self.path):
            return write_graph(self.path, self._view(), map_blocks)

    def languages(self) -> dict[str, int]:
        """Return how many passages there are in each language, as of the last commit."""
        return self._view().languages

    def close(self) -> None:
        """Drop what is uncommitted and let another writer in. Calling it twice is harmless."""
        for end in (self._engine.rollback, self._engine.wait_merging_threads):
            with suppress(OSError, RuntimeError, ValueError):
                end()

    @property
    def _state(self) -> CorpusState:
        return CorpusState.from_sum(self._passages, self._total)

    def _view(self) -> Bm25Index:
        return Bm25Index(self._searcher, self._schema, self._committed)

    def _take_lock(self) -> tantivy.IndexWriter:
        try:
            return self._index.writer(HEAP, THREADS)
        except ValueError as problem:
            if "LockBusy" not in str(problem):
                raise
            what = f"The index {printable_path(self.path)} is being written by another process."
            remedy = "Wait until that one has finished, or write to another directory."
            raise IndexBusy(what, remedy=remedy) from problem

    def _begin_batch(self) -> None:
        self._index.reload()
        self._searcher = self._index.searcher()
        self._schema = self._index.schema
        self._passages, self._total = self._committed.passages, self._committed.total
        self._pending: dict[str, _Stored | None] = {}
        self._changed_files: dict[str, IndexedFile | None] = {}
        self._touched: set[str] = set()
        self._links_changed = False

    def _commit_engine(self) -> None:
        # After a failure only the next writer can find out whether the commit happened.
        self._failed = True
        self._engine.commit()
        self._failed = False
        _return_free_memory()

    def _put(self, passage: Passage, new: _Stored, held: _Stored | None) -> None:
        if held is not None:
            self._links_changed |= held.digest == new.digest and held.links != new.links
            self._drop(passage.id, held)
        self._engine.add_document(store.to_document(passage, new.sources, new.digest))
        self._passages += 1
        self._total += new.digest
        self._pending[passage.id] = new
        self._touched.update(new.sources)
        if len(self._pending) >= self.batch:
            self.commit()

    def _drop(self, passage_id: str, held: _Stored) -> None:
        self._engine.delete_documents_by_term(store.ID, passage_id)
        self._passages -= 1
        self._total -= held.digest
        self._pending[passage_id] = None
        self._touched.update(held.sources)

    def _find_stored(self, passage_id: str) -> _Stored | None:
        """Return what the index will hold under an id after the next commit."""
        if passage_id in self._pending:
            return self._pending[passage_id]
        # Ten times cheaper than a search, and most ids are new.
        if not self._committed.passages or not self._searcher.doc_freq(store.ID, passage_id):
            return None
        passage, sources = self._find_committed(passage_id)
        return _Stored(store.passage_digest(passage), sources, passage.place, passage.metadata, links_of(passage))

    def _find_committed(self, passage_id: str) -> tuple[Passage, tuple[str, ...]]:
        return next(self._find_passages(tantivy.Query.term_query(self._schema, store.ID, passage_id), 1))

    def _ids_of(self, source: str) -> set[str]:
        if source in self._touched:
            self.commit()
        most = self._searcher.doc_freq(store.SOURCE, source)
        if not most:
            return set()
        term = tantivy.Query.term_query(self._schema, store.SOURCE, source)
        return {passage.id for passage, _ in self._find_passages(term, most)}

    def _find_passages(
        self, query: tantivy.Query, limit: int, offset: int = 0
    ) -> Iterator[tuple[Passage, tuple[str, ...]]]:
        for _, address in self._searcher.search(query, limit, count=False, offset=offset).hits:
            yield store.to_read_passage(self._searcher.doc(address))

    def _choose_id(self, passage: Passage, source: str, stale: set[str]) -> tuple[Passage, _Stored, _Stored | None]:
        digest, held = _checked_digest(passage), self._find_stored(passage.id)
        if held is None or (held.sources == (source,) and passage.id in stale):
            return passage, _Stored(digest, (source,), passage.place, passage.metadata, links_of(passage)), held
        if held.digest == digest:
            if source in held.sources[1:]:
                return passage, held, held
            sources = held.sources if source in held.sources else (source, *held.sources)
            return passage, _Stored(digest, sources, passage.place, passage.metadata, links_of(passage)), held
        return self._choose_id(replace(passage, id=f"{passage.id}~{digest >> 224:08x}"), source, stale)

    def _remove_source(self, passage_id: str, source: str) -> bool:
        """Remove a source of a passage, and the passage if it has no other; return whether it had none."""
        held = self._find_stored(passage_id)
        if held is None or source not in held.sources:
            return False
        rest = tuple(other for other in held.sources if other != source)
        if not rest:
            self._drop(passage_id, held)
            return True
        if passage_id in self._pending:
            self.commit()
        passage, _ = self._find_committed(passage_id)
        passage = replace(passage, place="", metadata=()) if held.sources[0] == source else passage
        self._put(passage, _Stored(held.digest, rest, passage.place, passage.metadata, links_of(passage)), held)
        return False


def _check_empty(folder: Path) -> None:
    foreign = next((item.name for item in folder.iterdir() if not _OURS.fullmatch(item.name)), None)
    if foreign is not None:
        raise CorpusError(
            f"{printable_path(folder)} is not an index and not empty: it holds {printable_path(foreign)}.",
            remedy="Name a new or empty directory for the index.",
        )


def _open_store(path: Path) -> tantivy.Index:
    try:
        return tantivy.Index.open(str(path / STORE))
    except ValueError as problem:
        if is_disk_refusal(problem):
            raise
        raise store.IndexUnusable(
            f"The index {printable_path(path)} is damaged: its segments cannot be opened.", remedy=store.REBUILD
        ) from problem


def _return_free_memory() -> None:
    # glibc keeps freed memory apart for each thread: a million passages would take twice the memory.
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _checked_digest(passage: Passage) -> int:
    try:
        return store.passage_digest(store.check_passage(passage))
    except UnicodeEncodeError as problem:
        raise CorpusError(
            f"Passage {passage.id!r} holds text that is not valid Unicode.", remedy="Clean the text."
        ) from problem
