"""One process's turn at writing an index: holds the lock, gathers changes, and commits them with the ledger."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple

import tantivy

from beliefrag.errors import CorpusError
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.document import links_of
from beliefrag.retrieval.engine_errors import explain_write_errors, is_disk_refusal
from beliefrag.retrieval.fingerprint import CorpusState, passage_digest
from beliefrag.retrieval.ledger import (
    IN_FORCE,
    LEDGER,
    REBUILD,
    IndexedFile,
    IndexUnusable,
    Ledger,
    LedgerEntry,
    read_snapshot,
)
from beliefrag.retrieval.memory import return_free_memory
from beliefrag.retrieval.passage_store import (
    ID,
    KEY,
    LINKS,
    PLACE,
    SOURCE,
    create_store,
    has_field,
    open_store,
    opstamp,
    sync_folder,
    to_document,
    to_read_passage,
)
from beliefrag.retrieval.text import printable_path
from beliefrag.types import Passage

__all__ = ["HEAP", "THREADS", "IndexBusy", "StoredPassage", "WriteSession"]

HEAP = 128_000_000
"""Bytes that tantivy gathers in memory before it writes a segment."""
THREADS = min(4, os.cpu_count() or 1)
"""Threads that tantivy indexes with. More of them make more and smaller segments, which slow down every search."""
_PAGE = 10_000
_STORE = "bm25-{}"
_LEFTOVER = re.compile(r"bm25-\d+|new-.+")
_MADE_LATER = re.compile(r"names-[0-9a-f]{32}|vectors")
"""The graph of names and the vectors, which can be there before a store is."""


class IndexBusy(CorpusError):
    """Another writer is at work on the index."""


class StoredPassage(NamedTuple):
    """What the index holds under an id: the digest of the content, and the sources that it came from."""

    digest: int
    sources: tuple[str, ...]
    place: str | None = None
    """Where the passage stands in its first source; None where places are not kept."""
    links: str | None = None
    """Its anchors and links; None where links are not kept."""

    def is_same(self, other: StoredPassage) -> bool:
        """Says whether both are the same passage from the same places, as far as places are kept."""
        known = self.place is not None and other.place is not None
        links_known = self.links is not None and other.links is not None
        return (
            self[:2] == other[:2]
            and (not known or self.place == other.place)
            and (not links_known or self.links == other.links)
        )


class WriteSession:
    """The lock on an index and the changes that are not committed yet.

    Tantivy's lock belongs to the process, so the system frees it when a process is killed.

    Args:
        path: The index directory, made if it is not there.

    Raises:
        IndexBusy: Another writer is at work.
        CorpusError: The directory holds something else, or it cannot be written.
    """

    batch = 50_000
    ledger: Ledger
    pending: dict[str, StoredPassage | None]
    """Passages that were put or (None) dropped since the last commit, by id."""
    files: dict[str, IndexedFile | None]
    """Files to be recorded with the next commit."""
    _index: tantivy.Index
    _engine: tantivy.IndexWriter
    _searcher: tantivy.Searcher
    _touched: set[str]

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise CorpusError(f"{printable_path(path)} is a file, not a folder.", remedy="Name a folder for the index.")
        with self.explain_write_errors():
            path.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self._remove_leftovers()
            self._start_batch()
        self._failed = False

    def explain_write_errors(self) -> AbstractContextManager[None]:
        """Turns every failure to write into one error that says what to do."""
        return explain_write_errors(self.path)

    @property
    def state(self) -> CorpusState:
        """The corpus as it will be after the next commit."""
        return CorpusState.from_sum(self._passages, self._total)

    @property
    def recorded_files(self) -> Mapping[str, IndexedFile]:
        """The files that are recorded as indexed, as of the last commit."""
        return self.ledger.files

    def look_up(self, ids: Sequence[str]) -> None:
        """Does nothing: ids are looked up on this machine, one by one."""

    def find_stored(self, passage_id: str) -> StoredPassage | None:
        """Gives what the index will hold under an id after the next commit."""
        if passage_id in self.pending:
            return self.pending[passage_id]
        # A look into the term dictionary is ten times cheaper than a search, and most ids are new.
        if not self._any_committed or not self._searcher.doc_freq(ID, passage_id):
            return None
        found = self.find_committed(passage_id)
        if found is None:
            return None
        place = found[0].place if self._has_places else None
        return StoredPassage(passage_digest(found[0]), found[1], place, links_of(found[0]) if self._has_links else None)

    def find_committed(self, passage_id: str) -> tuple[Passage, tuple[str, ...]] | None:
        """Gives the passage, with its sources, that stood under an id at the last commit."""
        return next(self._find_passages(tantivy.Query.term_query(self._schema, ID, passage_id), 1), None)

    def ids_of(self, source: str) -> set[str]:
        """Gives the ids of all passages that came from a source."""
        if source in self._touched:
            self.commit()
        most = self._searcher.doc_freq(SOURCE, source)
        if not most:
            return set()
        term = tantivy.Query.term_query(self._schema, SOURCE, source)
        return {passage.id for passage, _ in self._find_passages(term, most)}

    def put(self, passage: Passage, new: StoredPassage, held: StoredPassage | None) -> None:
        """Stores a passage, in place of what was held under its id."""
        if held is not None:
            self._links_changed |= held.digest == new.digest and (held.links or "") != (new.links or "")
            self.drop(passage.id, held)
        digest = new.digest if self._has_keys else None
        self._engine.add_document(
            to_document(passage, new.sources, digest, with_place=self._has_places, with_links=self._has_links)
        )
        self._passages += 1
        self._total += new.digest
        self.pending[passage.id] = new
        self._touched.update(new.sources)

    def drop(self, passage_id: str, held: StoredPassage) -> None:
        """Removes what is held under an id."""
        self._engine.delete_documents_by_term(ID, passage_id)
        self._passages -= 1
        self._total -= held.digest
        self.pending[passage_id] = None
        self._touched.update(held.sources)

    def commit(self) -> None:
        """Makes all changes visible and safe; does nothing when there are none."""
        if self._failed:
            raise CorpusError(
                f"Writing the index {printable_path(self.path)} failed before.", remedy="Open it again to go on."
            )
        if not self.pending and not self.files:
            return
        store = self.ledger.store
        entry = LedgerEntry(store.name, opstamp(store), self.ledger.state, self.state, self.files)
        self.ledger.append(entry)
        if self._links_changed:
            # The fingerprint knows nothing of links, so a graph for these texts may be there, with other links.
            shutil.rmtree(self.path / f"names-{self.state.fingerprint}", ignore_errors=True)
        # Should the commit fail, only the next session can tell whether it happened; this one must not write on.
        self._failed = True
        self._engine.commit()
        self._failed = False
        self.ledger.apply(entry)
        self._start_batch()
        return_free_memory()

    @property
    def has_keys(self) -> bool:
        """Whether the passages have keys, by which a graph of names knows them."""
        return self._has_keys

    def view(self) -> Bm25Index:
        """Gives the passages as of the last commit."""
        return Bm25Index(self._searcher, self._schema, self.ledger.state)

    def rewrite(self) -> None:
        """Moves all passages into a new store, without what deleted ones left behind. Nothing may be uncommitted."""
        old = self.ledger.store
        fresh = old.with_name(_STORE.format(int(old.name.rpartition("-")[2]) + 1))
        with tempfile.TemporaryDirectory(prefix="new-", dir=self.path, ignore_cleanup_errors=True) as beside:
            built = Path(beside) / "store"
            create_store(built)
            engine = open_store(built).writer(HEAP, THREADS)
            for passage, sources in self._all_passages():
                engine.add_document(to_document(passage, sources, passage_digest(passage)))
            engine.commit()
            engine.wait_merging_threads()
            built.rename(fresh)
        sync_folder(self.path)
        index = open_store(fresh)
        engine = index.writer(HEAP, THREADS)
        entry = LedgerEntry(fresh.name, IN_FORCE, self.state, self.state)
        self.ledger.append(entry)
        self.ledger.apply(entry)
        self._engine.wait_merging_threads()
        self._index, self._engine = index, engine
        self._remove_leftovers()
        self._start_batch()

    def close(self) -> None:
        """Drops what is uncommitted and lets another writer in. Calling it twice is harmless."""
        with suppress(OSError, RuntimeError, ValueError):
            self._engine.rollback()
        with suppress(OSError, RuntimeError, ValueError):
            self._engine.wait_merging_threads()

    def _start_batch(self) -> None:
        self._has_keys, self._has_places, self._has_links = (
            has_field(self.ledger.store, name) for name in (KEY, PLACE, LINKS)
        )
        self._index.reload()
        self._searcher = self._index.searcher()
        self._any_committed = self._searcher.num_docs > 0
        self._schema = self._index.schema
        self._touched = set()
        self._links_changed = False
        self._passages, self._total = self.ledger.state.passages, self.ledger.state.total
        self.pending = {}
        self.files = {}

    def _take_lock(self) -> None:
        while True:
            store = self._current_store()
            index = self._open_store(store)
            try:
                engine = index.writer(HEAP, THREADS)
            except ValueError as problem:
                if "LockBusy" not in str(problem):
                    raise
                raise IndexBusy(
                    f"The index {printable_path(self.path)} is being written by another process.",
                    remedy="Wait until that one has finished, or write to another directory.",
                ) from problem
            ledger = Ledger(self.path, store.name)
            if ledger.store == store:
                self._index, self._engine, self.ledger = index, engine, ledger
                return
            # Its writer moved to a new store between our look and our lock.
            engine.wait_merging_threads()

    def _open_store(self, store: Path) -> tantivy.Index:
        try:
            return open_store(store)
        except ValueError as problem:
            if is_disk_refusal(problem):
                raise
            raise IndexUnusable(
                f"The index {printable_path(self.path)} is damaged: its segments cannot be opened.", remedy=REBUILD
            ) from problem

    def _current_store(self) -> Path:
        if (self.path / LEDGER).exists():
            return read_snapshot(self.path).store
        foreign = next(
            (
                item
                for item in self.path.iterdir()
                if not (_LEFTOVER.fullmatch(item.name) or _MADE_LATER.fullmatch(item.name))
            ),
            None,
        )
        if foreign is not None:
            raise CorpusError(
                f"{printable_path(self.path)} is not an index and not empty: it holds {printable_path(foreign.name)}.",
                remedy="Name a new or empty directory for the index.",
            )
        store = self.path / _STORE.format(1)
        create_store(store)
        return store

    def _remove_leftovers(self) -> None:
        """Removes stores that a killed session left; ones that a reader still maps go with the last reader."""
        for item in self.path.iterdir():
            if _LEFTOVER.fullmatch(item.name) and item != self.ledger.store:
                if item.is_dir():
                    shutil.rmtree(item, ignore_errors=True)
                else:
                    item.unlink(missing_ok=True)

    def _all_passages(self) -> Iterator[tuple[Passage, tuple[str, ...]]]:
        for start in range(0, self._searcher.num_docs, _PAGE):
            yield from self._find_passages(tantivy.Query.all_query(), _PAGE, start)

    def _find_passages(
        self, query: tantivy.Query, limit: int, offset: int = 0
    ) -> Iterator[tuple[Passage, tuple[str, ...]]]:
        for _, address in self._searcher.search(query, limit, count=False, offset=offset).hits:
            yield to_read_passage(self._searcher.doc(address))
