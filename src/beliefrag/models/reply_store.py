"""Keeps replies in one SQLite file that runs and processes share, and moves them between machines as JSON Lines.

Write-ahead logging lets processes read while one writes, and a commit is on disk before `put` returns: neither a killed
process nor a power cut loses a reply that was paid for. Values are JSON. Nothing here is ever executed when read.
The file must be on a local disk: SQLite's shared memory does not work over a network file system.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from beliefrag.errors import SettingsError
from beliefrag.models.protocol import ChatReply, TokenProbability

__all__ = ["ImportCounts", "ReplyStore", "StoreStats", "StoredReply", "export_lines", "import_lines"]

_APPLICATION = 0x42525247
"""Marks the file as ours, so that a database of another program is never written to."""
_VERSION = 1
_BUSY_SECONDS = 10.0
_KEY = re.compile(r"[0-9a-f]{64}")
_NOT_WRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_USE_OTHER_FILE = "Name another cache file, or move that one away."


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply with its key, its model and the time when it was stored."""

    key: str
    model: str
    created: float
    """When it was stored, in seconds since 1970."""
    reply: ChatReply


@dataclass(frozen=True, slots=True)
class StoreStats:
    """How many replies a store holds, and its size."""

    entries: int
    bytes: int
    """The size on disk, with the log that is not yet merged into the main file."""
    by_model: Mapping[str, int]


class ReplyStore:
    """Replies by key. Several processes can open the same store at a time.

    Args:
        path: The file; it is created, with its folder, where there is none.
        read_only: Never write, and fail if there is no file. Works on a medium that cannot be written to.

    Raises:
        SettingsError: The file cannot be opened, is not a reply store, or has another version.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self.path = Path(path)
        if read_only and not self.path.is_file():
            raise SettingsError(
                f"There is no reply cache at {self.path}.", remedy="Run once without replay to create it."
            )
        try:
            if not read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = self._open(read_only)
        except OSError as error:
            raise SettingsError(
                f"The folder of the reply cache {self.path} cannot be created: {error.strerror}.",
                remedy="Name a cache file in a folder that can be written to.",
            ) from error
        except sqlite3.DatabaseError as error:
            raise SettingsError(
                f"The reply cache {self.path} cannot be opened: {error}.", remedy=_USE_OTHER_FILE
            ) from error

    def get(self, key: str) -> ChatReply | None:
        """The reply with this key, if there is one."""
        row = self._db.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        return None if row is None else _from_json(key, row[0])

    def put(self, key: str, model: str, reply: ChatReply) -> ChatReply:
        """Stores a reply and returns the reply that the store holds under this key from now on.

        Where another process was faster, its reply stays and is returned: everybody sees the same one.

        Raises:
            sqlite3.Error: It could not be stored (disk full, read-only, locked for too long).
        """
        row = (key, model, time.time(), _to_json(reply))
        cursor = self._db.execute("INSERT INTO replies VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
        return reply if cursor.rowcount else self.get(key) or reply

    def stats(self) -> StoreStats:
        """Counts the replies and their size."""
        rows = self._db.execute("SELECT model, count(*) FROM replies GROUP BY model ORDER BY model").fetchall()
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        size = sum(file.stat().st_size for file in files if file.is_file())
        return StoreStats(entries=sum(count for _, count in rows), bytes=size, by_model=dict(rows))

    def __iter__(self) -> Iterator[StoredReply]:
        """All replies, oldest first."""
        rows = self._db.execute("SELECT key, model, created, reply FROM replies ORDER BY created, key")
        for key, model, created, reply in rows:
            yield StoredReply(key, model, created, _from_json(key, reply))

    def delete_older_than(self, moment: float) -> int:
        """Deletes the replies stored before a moment (seconds since 1970), and returns how many there were."""
        deleted = self._db.execute("DELETE FROM replies WHERE created < ?", (moment,)).rowcount
        if deleted:
            # Returns the space to the disk. While another process uses the file, SQLite keeps it for later replies.
            with suppress(sqlite3.OperationalError):
                self._db.execute("VACUUM")
        return deleted

    def close(self) -> None:
        """Closes the file. Calling it twice is harmless."""
        self._db.close()

    def __enter__(self) -> ReplyStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, read_only: bool) -> sqlite3.Connection:
        if not read_only:
            try:
                return self._check(self._connect("rwc"), create=True)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _NOT_WRITABLE or not self.path.is_file():
                    raise
        try:
            return self._check(self._connect("ro"), create=False)
        except sqlite3.OperationalError:
            # Readers need a shared-memory file beside the database, which a read-only medium does not let them make.
            # Without a log there is nothing to share, and the file can be read as it is.
            if self.path.with_name(self.path.name + "-wal").exists():
                raise
            return self._check(self._connect("ro&immutable=1"), create=False)

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        # Used by one thread at a time, but not always by the one that opened it.
        return sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)

    def _check(self, db: sqlite3.Connection, *, create: bool) -> sqlite3.Connection:
        try:
            if create and _is_empty(db):
                _create(db)
            application, version = _read_marks(db)
            if application != _APPLICATION:
                raise SettingsError(f"{self.path} is not a reply cache but another database.", remedy=_USE_OTHER_FILE)
            if version != _VERSION:
                raise SettingsError(
                    f"The reply cache {self.path} has version {version}, and this BeliefRAG reads version {_VERSION}.",
                    remedy=_USE_OTHER_FILE,
                )
            # Read now, so that a damaged file is found before anything is paid for.
            db.execute("SELECT reply FROM replies LIMIT 1").fetchone()
            db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
        return db


def _read_marks(db: sqlite3.Connection) -> tuple[int, int]:
    application: int = db.execute("PRAGMA application_id").fetchone()[0]
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    return application, version


def _is_empty(db: sqlite3.Connection) -> bool:
    return _read_marks(db) == (0, 0) and db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)


def _create(db: sqlite3.Connection) -> None:
    _switch_to_wal(db)
    db.execute("BEGIN IMMEDIATE")
    try:
        if _is_empty(db):
            columns = "key TEXT PRIMARY KEY, model TEXT NOT NULL, created REAL NOT NULL, reply TEXT NOT NULL"
            db.execute(f"CREATE TABLE replies ({columns})")
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _switch_to_wal(db: sqlite3.Connection) -> None:
    """Turns on write-ahead logging, which the file keeps. SQLite does not wait when another process does the same."""
    give_up = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.01)


def _to_json(reply: ChatReply) -> str:
    value: dict[str, Any] = {
        "text": reply.text,
        "tokens_in": reply.tokens_in,
        "tokens_out": reply.tokens_out,
        "seconds": reply.seconds,
        "counted_by": reply.counted_by,
        "retries": reply.retries,
        "wasted_tokens": reply.wasted_tokens,
    }
    if reply.truncated:
        value["truncated"] = True
    if reply.tokens is not None:
        value["tokens"] = [[token.token, token.logprob, token.top] for token in reply.tokens]
    return json.dumps(value, separators=(",", ":"))


def _from_json(key: str, text: str) -> ChatReply:
    try:
        value = json.loads(text)
        tokens = value.pop("tokens", None)
        if tokens is not None:
            tokens = tuple(
                TokenProbability(token, logprob, tuple((other, weight) for other, weight in top))
                for token, logprob, top in tokens
            )
        return ChatReply(**value, tokens=tokens, cached=True)
    except (ValueError, TypeError, AttributeError):
        raise SettingsError(f"The cached reply {key[:12]} is damaged.", remedy=_USE_OTHER_FILE) from None


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """How many replies an import added, and how many were in the store before."""

    added: int
    known: int
    """Replies that the store had already, with the same text."""
    different: int
    """Replies that the store had already with another text; the store keeps its own."""


def export_lines(store: ReplyStore, *, model: str | None = None) -> Iterator[bytes]:
    """All replies, oldest first, as one line of JSON each.

    Args:
        store: The store to read.
        model: Export only the replies of the model with this identity.
    """
    adapter = TypeAdapter(StoredReply)
    for stored in store:
        if model is None or stored.model == model:
            yield adapter.dump_json(stored) + b"\n"


def import_lines(lines: Iterable[bytes], store: ReplyStore) -> ImportCounts:
    """Puts exported replies into a store. All lines are read first: a damaged file changes nothing.

    Raises:
        SettingsError: A line is not an exported reply.
    """
    adapter = TypeAdapter(StoredReply)
    replies = [_read_line(adapter, line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    added = known = different = 0
    for stored in replies:
        before = store.get(stored.key)
        if before is not None:
            known += before.text == stored.reply.text
            different += before.text != stored.reply.text
            continue
        store.put(stored.key, stored.model, replace(stored.reply, cached=False))
        added += 1
    return ImportCounts(added, known, different)


def _read_line(adapter: TypeAdapter[StoredReply], line: bytes, number: int) -> StoredReply:
    try:
        stored = adapter.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{where}: {first['msg']}" if where else first["msg"]
        raise SettingsError(
            f"Line {number} is not an exported reply: {problem}.",
            remedy="Give a file made with 'beliefrag cache export'.",
        ) from None
    if not _KEY.fullmatch(stored.key):
        raise SettingsError(f"Line {number} has no key of a reply.", remedy="Export the cache again.")
    return stored
