"""Changes an index on disk: one writer at a time, in commits that a kill cannot tear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

from beliefrag.errors import CorpusError
from beliefrag.paths import cache_dir
from beliefrag.retrieval.document import links_of
from beliefrag.retrieval.fingerprint import CorpusState, passage_digest
from beliefrag.retrieval.ledger import IndexedFile
from beliefrag.retrieval.memory import pause_cycle_search
from beliefrag.retrieval.passage_store import check_passage, dead_passages
from beliefrag.retrieval.session import StoredPassage, WriteSession
from beliefrag.types import Passage

if TYPE_CHECKING:
    from beliefrag.retrieval.dense.embedding_model import EmbeddingModel
    from beliefrag.retrieval.dense.vectors import OnVectors
    from beliefrag.retrieval.linked.build import MapBlocks

__all__ = ["QUICKLY_REWRITTEN", "IndexWriter", "PassageChange", "PassageWriter", "WritingSession"]

QUICKLY_REWRITTEN = 20_000
"""How many passages an index may have that is rewritten whenever a passage was deleted."""

_T = TypeVar("_T")


class PassageChange(NamedTuple):
    """How many passages an operation added and removed; a changed passage counts in both."""

    added: int
    removed: int


class WritingSession(Protocol):
    """One writer's turn at an index, wherever it is kept: what it holds, and changes that are not committed yet."""

    batch: int
    """After how many changed passages the writer commits by itself."""

    @property
    def pending(self) -> Mapping[str, StoredPassage | None]:
        """Passages that were put or (None) dropped since the last commit, by id."""
        ...

    @property
    def files(self) -> MutableMapping[str, IndexedFile | None]:
        """Files to be recorded with the next commit."""
        ...

    @property
    def recorded_files(self) -> Mapping[str, IndexedFile]:
        """Files that are recorded as indexed, as of the last commit."""
        ...

    @property
    def state(self) -> CorpusState:
        """The corpus as it will be after the next commit."""
        ...

    def explain_write_errors(self) -> AbstractContextManager[None]:
        """Turns every failure to write into one error that says what to do."""
        ...

    def look_up(self, ids: Sequence[str]) -> None:
        """Says which ids will be asked for next, so that one request can answer for all of them."""
        ...

    def find_stored(self, passage_id: str) -> StoredPassage | None:
        """Gives what the index will hold under an id after the next commit."""
        ...

    def find_committed(self, passage_id: str) -> tuple[Passage, tuple[str, ...]] | None:
        """Gives the passage, with its sources, that stood under an id at the last commit."""
        ...

    def ids_of(self, source: str) -> set[str]:
        """Gives the ids of all passages that came from a source."""
        ...

    def put(self, passage: Passage, new: StoredPassage, held: StoredPassage | None) -> None:
        """Stores a passage, in place of what was held under its id."""
        ...

    def drop(self, passage_id: str, held: StoredPassage) -> None:
        """Removes what is held under an id."""
        ...

    def commit(self) -> None:
        """Makes all changes visible and safe; does nothing when there are none."""
        ...

    def close(self) -> None:
        """Drops what is uncommitted and lets another writer in. Calling it twice is harmless."""
        ...


class PassageWriter:
    """Adds, replaces and deletes passages of an index, wherever it is kept.

    Nothing is visible to readers before a commit. What is uncommitted when the process dies is lost and what was
    committed is not: the same calls made again complete the work. To keep memory bounded the writer also commits by
    itself when a batch is full. As a context manager it commits at the end, or drops what is uncommitted when an
    exception passes through. It belongs to one thread.
    """

    def __init__(self, session: WritingSession) -> None:
        self._changes = session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()

    def __len__(self) -> int:
        return self._changes.state.passages

    @property
    def fingerprint(self) -> str:
        """The fingerprint that the index will have after the next commit."""
        return self._changes.state.fingerprint

    @property
    def uncommitted(self) -> int:
        """How many passages were added or removed since the last commit."""
        return len(self._changes.pending)

    @property
    def files(self) -> Mapping[str, IndexedFile]:
        """The files that are recorded as indexed, by path, as of the last commit."""
        return self._changes.recorded_files

    def record(self, path: str, record: IndexedFile | None) -> None:
        """Notes, with the next commit, that a file is indexed in this state, or (None) no longer at all."""
        self._changes.files[path] = record

    def add(self, passages: Iterable[Passage]) -> PassageChange:
        """Adds passages; one whose id is there already is replaced.

        Raises:
            CorpusError: A passage cannot be indexed, or the disk refused.
        """
        session = self._changes
        added = removed = 0
        for block in _cut_blocks(passages):
            with session.explain_write_errors(), pause_cycle_search():
                session.look_up([passage.id for passage in block])
                sources = ("",)
                for passage in block:
                    # Passages of one source share the tuple: fifty thousand of them are held.
                    if passage.source != sources[0]:
                        sources = (passage.source,)
                    new = StoredPassage(_checked_digest(passage), sources, passage.place, links_of(passage))
                    held = session.find_stored(passage.id)
                    if held is None or not held.is_same(new):
                        added += 1
                        removed += held is not None
                        self._put(passage, new, held)
        return PassageChange(added, removed)

    def delete(self, ids: Iterable[str]) -> int:
        """Deletes passages by id and returns how many were there."""
        session = self._changes
        count = 0
        for block in _cut_blocks(ids):
            with session.explain_write_errors():
                session.look_up(block)
                for passage_id in block:
                    held = session.find_stored(passage_id)
                    if held is not None:
                        session.drop(passage_id, held)
                        count += 1
        return count

    def put_source(self, source: str, passages: Iterable[Passage]) -> PassageChange:
        """Makes these passages exactly what the index holds from a source; none at all removes the source.

        Passages that are there already stay untouched. A passage that another source holds too is stored once, and
        stays until its last source is gone. Where the id is taken by other content, the passage gets an id of its
        own: the id, `~` and eight digits of its content.

        Raises:
            CorpusError: A passage cannot be indexed, or the disk refused.
        """
        added = removed = 0
        with self._changes.explain_write_errors():
            stale = self._changes.ids_of(source)
        for block in _cut_blocks(passages):
            with self._changes.explain_write_errors(), pause_cycle_search():
                self._changes.look_up([given.id for given in block])
                for given in block:
                    passage, new, held = self._choose_id(given, source, stale)
                    stale.discard(passage.id)
                    if held is None or held.digest != new.digest:
                        added += 1
                        removed += held is not None
                    if held is None or not held.is_same(new):
                        self._put(passage, new, held)
        with self._changes.explain_write_errors():
            for passage_id in sorted(stale):
                removed += self._remove_source(passage_id, source)
        return PassageChange(added, removed)

    def commit(self) -> None:
        """Makes everything so far visible and safe; does nothing when there is nothing to commit.

        Raises:
            CorpusError: The disk refused. The writer is then of no further use; what was committed before stands.
        """
        with self._changes.explain_write_errors():
            self._changes.commit()

    def close(self) -> None:
        """Drops what is uncommitted and lets another writer in. Calling it twice is harmless."""
        self._changes.close()

    def _put(self, passage: Passage, new: StoredPassage, held: StoredPassage | None) -> None:
        self._changes.put(passage, new, held)
        if len(self._changes.pending) >= self._changes.batch:
            self._changes.commit()

    def _choose_id(
        self, passage: Passage, source: str, stale: set[str]
    ) -> tuple[Passage, StoredPassage, StoredPassage | None]:
        digest, held = _checked_digest(passage), self._changes.find_stored(passage.id)
        if held is None or (held.sources == (source,) and passage.id in stale):
            return passage, StoredPassage(digest, (source,), passage.place, links_of(passage)), held
        if held.digest == digest:
            if source in held.sources[1:]:
                # The place is that of the first source.
                return passage, held, held
            sources = held.sources if source in held.sources else (source, *held.sources)
            return passage, StoredPassage(digest, sources, passage.place, links_of(passage)), held
        return self._choose_id(replace(passage, id=f"{passage.id}~{digest >> 224:08x}"), source, stale)

    def _remove_source(self, passage_id: str, source: str) -> bool:
        """Takes a source from a passage, and removes the passage when that was its last one."""
        session = self._changes
        held = session.find_stored(passage_id)
        if held is None or source not in held.sources:
            return False
        rest = tuple(other for other in held.sources if other != source)
        if not rest:
            session.drop(passage_id, held)
            return True
        if passage_id in session.pending:
            session.commit()
        found = session.find_committed(passage_id)
        if found is None:
            raise CorpusError(f"Passage {passage_id!r} vanished from the index.", remedy="Build the index again.")
        # The place was that of the first source.
        passage = replace(found[0], place="") if held.sources[0] == source else found[0]
        session.put(passage, StoredPassage(held.digest, rest, passage.place, links_of(passage)), held)
        return False


class IndexWriter(PassageWriter):
    """Writes an index on disk, which is made if it is not there; it also commits by itself every 50,000 passages.

    Args:
        path: The index directory.

    Raises:
        IndexBusy: Another writer is at work.
        CorpusError: The directory holds something else, or it cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._session = WriteSession(Path(path))
        super().__init__(self._session)

    def compact(self, *, force: bool = False) -> bool:
        """Rewrites the index without what deleted passages left behind, and says whether it did.

        BM25 counts deleted passages in its statistics until they are gone for good, so scores depend on the history
        of an index. After this they are those of a fresh build. Unless forced, it is done when the rewrite takes about
        a second or when the dead are more than a tenth of the living.
        """
        session = self._session
        with session.explain_write_errors():
            session.commit()
            dead = dead_passages(session.ledger.store)
            worthwhile = force or len(self) <= QUICKLY_REWRITTEN or 10 * dead > len(self)
            if not dead or not worthwhile:
                return False
            session.rewrite()
        return True

    def upgrade(self, map_blocks: MapBlocks = map) -> bool:
        """Brings an index of an older version up to what this one makes, and says whether there was anything to do.

        Passages of an old store get their keys, and the graph of names is made for the passages as they are now.

        Args:
            map_blocks: Finds the names in blocks of passages, in this process or on workers.
        """
        session = self._session
        with session.explain_write_errors():
            session.commit()
            rewritten = not session.has_keys
            if rewritten:
                session.rewrite()
        return self.write_graph(map_blocks) or rewritten

    def write_graph(self, map_blocks: MapBlocks = map) -> bool:
        """Makes the graph of names for all committed passages, unless it is there; says whether it was made.

        Linked retrieval needs it; BM25 does not. It is made from what is committed and replaces the one before.
        """
        # Arrays are imported by those who need them only: a search by words does not wait for numpy.
        from beliefrag.retrieval.linked.linked_retriever import write_graph  # noqa: PLC0415

        with self._session.explain_write_errors(), pause_cycle_search():
            self._session.commit()
            return write_graph(self._session.path, self._session.view(), map_blocks)

    def write_vectors(self, model: EmbeddingModel, on_progress: OnVectors | None = None) -> bool:
        """Makes the vectors of all committed passages, unless they are there; says whether they were made.

        Dense and hybrid retrieval need them. They lie in the folder of the index, so whoever copies it has them too.

        Args:
            model: Makes vectors, in this process or on workers.
            on_progress: Called with the number of passages whose vectors there are so far.
        """
        from beliefrag.retrieval.dense.vectors import write_vectors  # noqa: PLC0415

        with self._session.explain_write_errors():
            self._session.commit()
            return write_vectors(self._session.view(), model, self._session.path, cache_dir(), on_progress)


def _cut_blocks(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Items in short lists: what fails in making an item is then not taken for a failure to write."""
    rest = iter(items)
    while block := list(islice(rest, 500)):
        yield block


def _checked_digest(passage: Passage) -> int:
    try:
        return passage_digest(check_passage(passage))
    except UnicodeEncodeError as problem:
        raise CorpusError(
            f"Passage {passage.id!r} holds text that is not valid Unicode.", remedy="Clean the text."
        ) from problem
