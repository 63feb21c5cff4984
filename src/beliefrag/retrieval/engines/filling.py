"""Filling an index on an engine elsewhere: changes are gathered in memory and written batch by batch.

A batch is written whole or can be written again: PostgreSQL has transactions, and on the other engines every write
names the passage by its id and leaves the same behind however often it is made.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from beliefrag.errors import BeliefRAGError, CorpusError
from beliefrag.retrieval.store import CorpusState, IndexedFile
from beliefrag.retrieval.writer import StoredPassage
from beliefrag.types import Passage

__all__ = ["ATTEMPTS", "Batch", "BatchSession", "try_again"]

ATTEMPTS = 5
"""How often a batch is tried before indexing gives up; what was committed before is kept."""
_FIRST_WAIT = 0.5
_LOOKED_UP = 20_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that are written together."""

    puts: Mapping[str, tuple[Passage, StoredPassage]]
    """Passages to store, by id."""
    removed: Sequence[str]
    """Ids whose stored passage goes, also where another one takes its place."""
    files: Mapping[str, IndexedFile | None]
    before: CorpusState
    after: CorpusState


@dataclass
class _Changes:
    puts: dict[str, tuple[Passage, StoredPassage]] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)
    pending: dict[str, StoredPassage | None] = field(default_factory=dict)
    files: dict[str, IndexedFile | None] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)


class BatchSession(ABC):
    """One writer's turn at an index elsewhere; an engine says how to read and write it."""

    batch = 5_000
    name: str
    """The index in words, for messages."""

    def _begin(self, state: CorpusState, files: Mapping[str, IndexedFile]) -> None:
        """Starts with what the index holds."""
        self._committed = state
        self._passages, self._total = state.passages, state.total
        self._files = dict(files)
        self._changes = _Changes()
        self._known: dict[str, StoredPassage | None] = {}

    @property
    def pending(self) -> Mapping[str, StoredPassage | None]:
        """Passages that were put or (None) dropped since the last commit, by id."""
        return self._changes.pending

    @property
    def files(self) -> dict[str, IndexedFile | None]:
        """Files to be recorded with the next commit."""
        return self._changes.files

    @property
    def recorded_files(self) -> Mapping[str, IndexedFile]:
        """Files that are recorded as indexed, as of the last commit."""
        return self._files

    @property
    def state(self) -> CorpusState:
        """The corpus as it will be after the next commit."""
        return CorpusState.from_sum(self._passages, self._total)

    def look_up(self, ids: Sequence[str]) -> None:
        """Asks the engine about these ids in one request."""
        if len(self._known) > _LOOKED_UP:
            self._known.clear()
        unknown = [each for each in dict.fromkeys(ids) if each not in self.pending and each not in self._known]
        if unknown and self._committed.passages:
            self._known.update(dict.fromkeys(unknown) | dict(self._read_stored(unknown)))

    def find_stored(self, passage_id: str) -> StoredPassage | None:
        """Gives what the index will hold under an id after the next commit."""
        if passage_id in self.pending:
            return self.pending[passage_id]
        if not self._committed.passages:
            return None
        if passage_id not in self._known:
            self.look_up([passage_id])
        return self._known[passage_id]

    def find_committed(self, passage_id: str) -> tuple[Passage, tuple[str, ...]] | None:
        """Gives the passage, with its sources, that stood under an id at the last commit."""
        return self._read_passage(passage_id)

    def ids_of(self, source: str) -> set[str]:
        """Gives the ids of all passages that came from a source."""
        if source in self._changes.sources:
            self.commit()
        return self._read_ids_of(source) if self._committed.passages else set()

    def put(self, passage: Passage, new: StoredPassage, held: StoredPassage | None) -> None:
        """Stores a passage, in place of what was held under its id."""
        if held is not None:
            self.drop(passage.id, held)
        self._changes.puts[passage.id] = (passage, new)
        self._changes.pending[passage.id] = new
        self._changes.sources.update(new.sources)
        self._passages += 1
        self._total += new.digest

    def drop(self, passage_id: str, held: StoredPassage) -> None:
        """Removes what is held under an id."""
        if self._changes.puts.pop(passage_id, None) is None:
            self._changes.removed[passage_id] = None
        self._changes.pending[passage_id] = None
        self._changes.sources.update(held.sources)
        self._passages -= 1
        self._total -= held.digest

    def commit(self) -> None:
        """Writes all changes; does nothing when there are none."""
        changes = self._changes
        if not changes.pending and not changes.files:
            return
        after = self.state
        self._write(Batch(changes.puts, list(changes.removed), changes.files, self._committed, after))
        self._committed = after
        self._passages, self._total = after.passages, after.total
        self._known.update(changes.pending)
        for path, record in changes.files.items():
            if record is None:
                self._files.pop(path, None)
            else:
                self._files[path] = record
        self._changes = _Changes()

    @contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except BeliefRAGError:
            raise
        except Exception as problem:
            if not self._is_engine_error(problem):
                raise
            words = " ".join(str(problem).split())[:300].rstrip(".") or type(problem).__name__
            raise CorpusError(
                f"{self.name} cannot be written: {words}.",
                remedy="Check the engine, then run again: what was committed is kept.",
            ) from problem

    def explain_write_errors(self) -> AbstractContextManager[None]:
        """Turns every failure of the engine into one error that says what to do."""
        return self._explain()

    @abstractmethod
    def finish(self) -> None:
        """Makes the index ready for searches when all passages are written."""

    @abstractmethod
    def close(self) -> None:
        """Lets another writer in. Calling it twice is harmless."""

    @abstractmethod
    def _read_stored(self, ids: Sequence[str]) -> Mapping[str, StoredPassage]: ...

    @abstractmethod
    def _read_passage(self, passage_id: str) -> tuple[Passage, tuple[str, ...]] | None: ...

    @abstractmethod
    def _read_ids_of(self, source: str) -> set[str]: ...

    @abstractmethod
    def _write(self, batch: Batch) -> None: ...

    @abstractmethod
    def _is_engine_error(self, problem: Exception) -> bool: ...


def try_again(
    work: Callable[[], None], *, on: tuple[type[Exception], ...], repair: Callable[[], None] = lambda: None
) -> None:
    """Does a piece of work that may be done twice; after a failure it waits, repairs and tries again.

    Args:
        work: What to do.
        on: The errors after which it is worth trying again.
        repair: Called before each further attempt; the same errors in it count as a failed attempt.
    """
    wait = _FIRST_WAIT
    for attempt in range(1, ATTEMPTS + 1):
        try:
            if attempt > 1:
                repair()
            work()
            return
        except on:
            if attempt == ATTEMPTS:
                raise
            time.sleep(wait)
            wait *= 2
