"""Filling an engine that has no transactions: a lease keeps other writers out, and a mark says when all is written.

Beside the index lies a small store of named notes. The note `state` says how many passages there are, the sum of their
digests, whether the last run was finished, and who writes. Every write of a passage names its id, so a batch that was
cut off is simply written again; and after a kill the next writer counts what is there instead of trusting the note.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from beliefrag.errors import CorpusError
from beliefrag.retrieval.engines.engine import IndexState
from beliefrag.retrieval.engines.filling import Batch, BatchSession
from beliefrag.retrieval.store import EMPTY, CorpusState, IndexedFile
from beliefrag.retrieval.writer import IndexBusy

__all__ = ["LEASE_SECONDS", "STATE", "LeasedSession", "file_note", "read_file_note", "read_note", "source_key"]

FORMAT = 1
STATE = "state"
LEASE_SECONDS = 60.0
"""How long a writer that fell silent keeps others out."""


def source_key(source: str) -> str:
    """Gives a short name for a source that needs no quoting in any query."""
    return hashlib.sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def read_note(name: str, note: str | None) -> IndexState:
    """Gives the state that a note tells of.

    Raises:
        CorpusError: There is no such index, it is not finished, or it is of another version.
    """
    if note is None:
        raise CorpusError(
            f"{name} is not there, or was not made by BeliefRAG.", remedy="Make it with `beliefrag index ... --to`."
        )
    value = json.loads(note)
    if value["format"] != FORMAT:
        raise CorpusError(
            f"{name} has format {value['format']}, and this BeliefRAG reads {FORMAT}.", remedy="Make it again."
        )
    if not value["complete"]:
        raise CorpusError(
            f"{name} is being filled, or filling it was cut off.",
            remedy="Wait until that is done, or run `beliefrag index ... --to` again to finish it.",
        )
    state = CorpusState(value["passages"], int(value["total"], 16))
    return IndexState(state.passages, state.fingerprint)


class LeasedSession(BatchSession):
    """One writer's turn at an index without transactions.

    Raises:
        IndexBusy: Another writer is at work.
    """

    _about: Mapping[str, str] = {}
    """What the note says besides, such as which model made the vectors."""

    def _start(self) -> None:
        """Takes the lease, reads what is there, and counts it where the last writer was cut off."""
        self._token = uuid.uuid4().hex
        self._held = False
        note = self._read_note()
        before: Mapping[str, Any] = json.loads(note) if note else {}
        if before.get("writer") and float(before["until"]) > time.time():
            raise self._busy()
        self._complete = bool(before.get("complete", True))
        state = CorpusState(before["passages"], int(before["total"], 16)) if before else EMPTY
        self._dead = int(before.get("dead", 0))
        self._tell(state)
        self._held = True
        if not self._complete:
            state = self._count_passages()
        self._begin(state, dict(self._read_files()))

    def _busy(self) -> IndexBusy:
        return IndexBusy(
            f"{self.name} is being written by another process.",
            remedy=f"Wait until that one has finished; one that was killed is forgotten after {LEASE_SECONDS:g} "
            "seconds.",
        )

    def _tell(self, state: CorpusState, *, writing: bool = True) -> None:
        value = {
            "format": FORMAT,
            "passages": state.passages,
            "total": f"{state.total:x}",
            "complete": self._complete,
            "dead": self._dead,
            "writer": self._token if writing else "",
            "until": time.time() + LEASE_SECONDS,
            **self._about,
        }
        if not self._write_note(json.dumps(value)):
            raise self._busy()

    def _write(self, batch: Batch) -> None:
        self._complete = False
        self._tell(batch.before)
        self._write_passages(batch)
        self._dead += len(batch.removed)
        self._write_files(batch.files)
        self._tell(batch.after)

    def finish(self) -> None:
        """Makes all that was written visible, and says that it is whole."""
        with self.explain_write_errors():
            self._settle(self._dead)
            self._dead = 0
            self._complete = True
            self._tell(self._committed)

    def close(self) -> None:
        """Gives the lease back. Calling it twice is harmless."""
        if self._held:
            self._held = False
            try:
                self._tell(self._committed, writing=False)
            except Exception as problem:
                # Whatever ended the work matters more; the lease ends by itself.
                if not self._is_engine_error(problem) and not isinstance(problem, CorpusError):
                    raise
        self._disconnect()

    def _count_passages(self) -> CorpusState:
        digests = list(self._read_digests())
        return CorpusState.from_sum(len(digests), sum(digests))

    @abstractmethod
    def _read_note(self) -> str | None: ...

    @abstractmethod
    def _write_note(self, note: str) -> bool:
        """Replaces the note that was read or written last; False where somebody else has replaced it since."""

    @abstractmethod
    def _read_files(self) -> Iterator[tuple[str, IndexedFile]]: ...

    @abstractmethod
    def _write_files(self, files: Mapping[str, IndexedFile | None]) -> None: ...

    @abstractmethod
    def _write_passages(self, batch: Batch) -> None: ...

    @abstractmethod
    def _read_digests(self) -> Iterator[int]: ...

    @abstractmethod
    def _settle(self, dead: int) -> None:
        """Makes all that was written visible; `dead` passages were deleted since the index was last rewritten."""

    @abstractmethod
    def _disconnect(self) -> None: ...


def file_note(path: str, record: IndexedFile) -> str:
    """Gives what is kept of a file; a path may hold any bytes."""
    fields = [record.sha256, record.size, record.mtime_ns, record.ctime_ns]
    return json.dumps([os.fsencode(path).hex(), *fields])


def read_file_note(note: str) -> tuple[str, IndexedFile]:
    """Gives a file back from what was kept of it."""
    path, *record = json.loads(note)
    return os.fsdecode(bytes.fromhex(path)), IndexedFile(*record)
