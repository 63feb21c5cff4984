"""Keeps replies in one SQLite file that runs and processes share, and moves them between machines as JSON Lines.

Write-ahead logging lets processes read while one writes, and a commit is on disk before `put` returns: neither a killed
process nor a power cut loses a reply that was paid for. Values are JSON. Nothing here is ever executed when read.

Each reply has a seal, a hash of its whole row. A reply that was edited, or in which a bit flipped, no longer matches
its seal and is never given out. The seal finds damage; it does not stop somebody who knows how to compute it. Stores of
version 1 have no seals: the first time that one is opened for writing, every readable reply is sealed as it is.

The file must be on a local disk: SQLite's shared memory does not work over a network file system.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from beliefrag.errors import SettingsError
from beliefrag.models.protocol import ChatReply, TokenProbability

__all__ = [
    "DamagedReplyError",
    "ImportCounts",
    "ReplyStore",
    "StoreStats",
    "StoredReply",
    "export_lines",
    "import_lines",
]

_APPLICATION = 0x42525247
"""Marks the file as ours, so that a database of another program is never written to."""
_VERSION = 2
_UNSEALED_VERSION = 1
_BUSY_SECONDS = 10.0
_KEY = re.compile(r"[0-9a-f]{64}")
_NOT_WRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_USE_OTHER_FILE = "Name another cache file, or move that one away."
_ELSEWHERE = "Set BELIEFRAG_CACHE_DIR to a folder that can be written to, or use --set cache=false."
_REPAIR = "Run `beliefrag cache repair`: it keeps what is whole."


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply with its key, its model and the time when it was stored."""

    key: str
    model: str
    created: float
    """When it was stored, in seconds since 1970."""
    reply: ChatReply
    seal: str | None = None
    """The hash of the row; None in stores and files that were made before there were seals."""


class DamagedReplyError(SettingsError):
    """A stored reply does not match its seal, or cannot be read.

    Args:
        key: The key of the reply.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"The cached reply {key[:12]} is damaged.", remedy=_REPAIR)
        self.key = key


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
            self._columns = select_columns(self._db)
        except OSError as error:
            raise SettingsError(
                f"The folder of the reply cache {self.path} cannot be created: {error.strerror}.",
                remedy=_ELSEWHERE,
            ) from error
        except sqlite3.OperationalError as error:
            raise SettingsError(
                f"The reply cache {self.path} cannot be opened: {self._explain(error)}.", remedy=_ELSEWHERE
            ) from error
        except sqlite3.DatabaseError as error:
            raise SettingsError(
                f"The reply cache {self.path} cannot be opened: {error}.",
                remedy=f"{_REPAIR} Or name another cache file.",
            ) from error

    def _explain(self, error: sqlite3.Error) -> str:
        """Gives the reason in words that name the folder, where SQLite only says that it could not open the file."""
        folder = self.path.parent
        if self.path.exists() and not os.access(self.path, os.W_OK):
            return "the file cannot be written to"
        return str(error) if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} cannot be written to"

    def get(self, key: str) -> ChatReply | None:
        """Gives the reply with this key, if there is one.

        Raises:
            DamagedReplyError: The reply does not match its seal. It stays until it is removed.
            sqlite3.Error: The file cannot be read.
        """
        row = self._db.execute(f"SELECT {self._columns} FROM replies WHERE key = ?", (key,)).fetchone()  # noqa: S608
        return None if row is None else read_row(row).reply

    def put(self, key: str, model: str, reply: ChatReply) -> ChatReply:
        """Stores a reply and returns the reply that the store holds under this key from now on.

        Where another process was faster, its reply stays and is returned: everybody sees the same one.

        Raises:
            sqlite3.Error: It could not be stored (disk full, read-only, locked for too long).
        """
        return reply if self.add(StoredReply(key, model, time.time(), reply)) else self.get(key) or reply

    def add(self, stored: StoredReply) -> bool:
        """Stores a reply with the time that it has, and says whether it was new.

        Raises:
            sqlite3.Error: It could not be stored.
        """
        text = reply_to_json(stored.reply)
        seal = seal_row(stored.key.encode(), stored.model.encode(), stored.created, text.encode())
        row = (stored.key, stored.model, stored.created, text, seal)
        statement = (
            "INSERT INTO replies (key, model, created, reply, seal) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        )
        return bool(self._db.execute(statement, row).rowcount)

    def remove(self, key: str) -> None:
        """Deletes the reply with this key.

        Raises:
            sqlite3.Error: It could not be deleted.
        """
        self._db.execute("DELETE FROM replies WHERE key = ?", (key,))

    def stats(self) -> StoreStats:
        """Counts the replies and their size."""
        rows = self._db.execute("SELECT model, count(*) FROM replies GROUP BY model ORDER BY model").fetchall()
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        size = sum(file.stat().st_size for file in files if file.is_file())
        return StoreStats(entries=sum(count for _, count in rows), bytes=size, by_model=dict(rows))

    def __iter__(self) -> Iterator[StoredReply]:
        """Gives all replies, oldest first.

        Raises:
            DamagedReplyError: One of them is damaged.
        """
        for row in self._db.execute(f"SELECT {self._columns} FROM replies ORDER BY created, key"):  # noqa: S608
            yield read_row(row)

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
        db = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        # A flipped bit can make a text that is not UTF-8; its seal tells.
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        return db

    def _check(self, db: sqlite3.Connection, *, create: bool) -> sqlite3.Connection:
        try:
            if create and _is_empty(db):
                _create(db)
            application, version = _read_marks(db)
            if application != _APPLICATION:
                raise SettingsError(f"{self.path} is not a reply cache but another database.", remedy=_USE_OTHER_FILE)
            if create and version == _UNSEALED_VERSION:
                _seal_all(db)
                version = _VERSION
            if version not in (_VERSION, _UNSEALED_VERSION):
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
            db.execute(f"CREATE TABLE replies ({columns}, seal TEXT)")
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


def reply_to_json(reply: ChatReply) -> str:
    """Writes a reply in the form in which stores hold it."""
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


def _from_json(key: str, text: str | bytes) -> ChatReply:
    try:
        value = json.loads(text)
        tokens = value.pop("tokens", None)
        if tokens is not None:
            tokens = tuple(
                TokenProbability(token, logprob, tuple((other, weight) for other, weight in top))
                for token, logprob, top in tokens
            )
        reply = ChatReply(**value, tokens=tokens, cached=True)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise DamagedReplyError(key) from None
    if not (isinstance(reply.text, str) and isinstance(reply.tokens_in, int) and isinstance(reply.tokens_out, int)):
        raise DamagedReplyError(key)
    return reply


# Texts are read as bytes, because a damaged one may not be UTF-8; a store of version 1 has no column for the seal.
_COLUMNS = "CAST(key AS BLOB), CAST(model AS BLOB), created, CAST(reply AS BLOB), "
StoredRow = tuple[bytes, bytes, Any, bytes, str | None]


def select_columns(db: sqlite3.Connection) -> str:
    """Gives the columns of a row in the form that `read_row` takes."""
    names = {name for _, name, *_ in db.execute("PRAGMA table_info(replies)")}
    return _COLUMNS + ("ifnull(seal, '')" if "seal" in names else "NULL")


def read_row(row: StoredRow) -> StoredReply:
    """Reads a row that was selected with `select_columns`.

    Raises:
        DamagedReplyError: It does not match its seal, or cannot be read.
    """
    key_bytes, model, created, text, seal = row
    # A flipped bit in the head of a row can make a column empty.
    if not (isinstance(key_bytes, bytes) and isinstance(model, bytes) and isinstance(text, bytes)):
        raise DamagedReplyError(str(key_bytes))
    key = key_bytes.decode("utf-8", "replace")
    if seal is not None and seal != seal_row(key_bytes, model, created, text):
        raise DamagedReplyError(key)
    return StoredReply(key, model.decode("utf-8", "replace"), created, _from_json(key, text), seal)


def seal_row(key: bytes, model: bytes, created: object, text: bytes) -> str:
    """Gives the seal of a row: a hash of all that it holds."""
    parts = (key, model, repr(created).encode(), text)
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()[:32]


def _seal_all(db: sqlite3.Connection) -> None:
    """Seals the replies of a store of version 1 as they are. One that cannot be read stays without a seal."""

    def seal(key: bytes, model: bytes, created: object, text: bytes) -> str | None:
        try:
            _from_json("", text)
        except DamagedReplyError:
            return None
        return seal_row(key, model, created, text)

    db.create_function("seal_of", 4, seal, deterministic=True)
    db.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for the lock.
        if _read_marks(db)[1] == _UNSEALED_VERSION:
            db.execute("ALTER TABLE replies ADD COLUMN seal TEXT")
            db.execute(f"UPDATE replies SET seal = seal_of({_COLUMNS.rstrip(', ')})")  # noqa: S608 (a constant)
            db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """How many replies an import added, and how many were in the store before."""

    added: int
    known: int
    """Replies that the store had already, with the same text."""
    different: int
    """Replies that the store had already with another text; the store keeps its own."""


def export_lines(store: Iterable[StoredReply], *, model: str | None = None) -> Iterator[bytes]:
    """Gives all replies, oldest first, as one line of JSON each.

    Args:
        store: The store to read.
        model: Export only the replies of the model with this identity.
    """
    adapter = TypeAdapter(StoredReply)
    for stored in store:
        if model is None or stored.model == model:
            yield adapter.dump_json(stored) + b"\n"


class _WritableStore(Protocol):
    """What an import needs of a store."""

    def get(self, key: str) -> ChatReply | None: ...

    def put(self, key: str, model: str, reply: ChatReply) -> ChatReply: ...

    def remove(self, key: str) -> None: ...


def import_lines(lines: Iterable[bytes], store: _WritableStore) -> ImportCounts:
    """Puts exported replies into a store. All lines are read first: a damaged file changes nothing.

    Raises:
        SettingsError: A line is not an exported reply.
    """
    adapter = TypeAdapter(StoredReply)
    replies = [_read_line(adapter, line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    added = known = different = 0
    for stored in replies:
        before = _get_whole(store, stored.key)
        if before is not None:
            known += before.text == stored.reply.text
            different += before.text != stored.reply.text
            continue
        store.put(stored.key, stored.model, replace(stored.reply, cached=False))
        added += 1
    return ImportCounts(added, known, different)


def _get_whole(store: _WritableStore, key: str) -> ChatReply | None:
    try:
        return store.get(key)
    except DamagedReplyError:
        store.remove(key)
        return None


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
    row = (stored.key.encode(), stored.model.encode(), stored.created, reply_to_json(stored.reply).encode())
    if stored.seal is not None and stored.seal != seal_row(*row):
        raise SettingsError(f"Line {number} was changed after it was exported.", remedy="Export the cache again.")
    return stored
