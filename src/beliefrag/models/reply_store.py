"""Keeps replies in one SQLite file that runs and processes share, and moves them between machines as JSON Lines.

Write-ahead logging lets processes read while one writes, and a commit is on disk before `put` returns: neither a killed
process nor a power cut loses a reply that was paid for. Values are JSON. Nothing here is ever executed when read.

Each reply has a seal, a hash of its whole row. A reply that was edited, or in which a bit flipped, no longer matches
its seal and is never returned. The seal finds damage; it does not stop somebody who knows how to compute it. A file
that SQLite cannot read is renamed, and its readable replies are copied into a new one.

The file must be on a local disk: SQLite's shared memory does not work over a network file system.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from beliefrag.errors import SettingsError
from beliefrag.file_lock import hold_lock
from beliefrag.models.protocol import ChatReply, TokenProbability
from beliefrag.paths import cache_dir

__all__ = [
    "DamagedReplyError",
    "ImportCounts",
    "ReplyStore",
    "StoreStats",
    "StoredReply",
    "export_lines",
    "import_lines",
    "reply_store_path",
]

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_APPLICATION = 0x42525247
"""Marks the file as ours, so that a database of another program is never written to."""
_VERSION = 2
_BUSY_SECONDS = 10.0
_KEY = re.compile(r"[0-9a-f]{64}")
_NOT_WRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_USE_OTHER_FILE = "Name another cache file, or move that one away."
_ELSEWHERE = "Set BELIEFRAG_CACHE_DIR to a folder that can be written to, or use --set cache=false."
_RECOVER = "Run once without replay: a new cache with the readable replies is made."


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
        super().__init__(
            f"The cached reply {key[:12]} is damaged.", remedy="Run once without replay to ask for it again."
        )
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
        self._read_only = read_only
        if read_only and not self.path.is_file():
            raise SettingsError(
                f"There is no reply cache at {self.path}.", remedy="Run once without replay to create it."
            )
        try:
            if not read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file_id = self._read_file_id()
            try:
                self._db = self._open(read_only)
            except sqlite3.DatabaseError as error:
                if read_only or not _is_damage(error):
                    raise
                self._db = self._recover()
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
                remedy=_RECOVER,
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
        query = f"SELECT {_COLUMNS} FROM replies WHERE key = ?"  # noqa: S608 (constants)
        row = self._run(lambda db: db.execute(query, (key,)).fetchone())
        return None if row is None else _read_row(row).reply

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
        return bool(self._run(lambda db: db.execute(statement, row).rowcount))

    def remove(self, key: str) -> None:
        """Deletes the reply with this key.

        Raises:
            sqlite3.Error: It could not be deleted.
        """
        self._run(lambda db: db.execute("DELETE FROM replies WHERE key = ?", (key,)))

    def stats(self) -> StoreStats:
        """Counts the replies and their size."""
        rows = self._db.execute("SELECT model, count(*) FROM replies GROUP BY model ORDER BY model").fetchall()
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        size = sum(file.stat().st_size for file in files if file.is_file())
        return StoreStats(entries=sum(count for _, count in rows), bytes=size, by_model=dict(rows))

    def __iter__(self) -> Iterator[StoredReply]:
        """Return all replies, oldest first. Damaged ones are skipped with a warning in the log."""
        for row in self._db.execute(f"SELECT {_COLUMNS} FROM replies ORDER BY created, key"):  # noqa: S608
            try:
                yield _read_row(row)
            except DamagedReplyError as error:
                _log.warning("%s It is skipped.", error.message)

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

    def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run a statement, on a recovered file if this one is damaged."""
        try:
            return work(self._db)
        except sqlite3.DatabaseError as error:
            if self._read_only or not _is_damage(error):
                raise
            self._db.close()
            self._db = self._recover()
            return work(self._db)

    def _recover(self) -> sqlite3.Connection:
        """Set the damaged file aside, copy its readable replies into a new one, and open that."""
        with hold_lock(self.path.with_name(self.path.name + ".lock")):
            # Another process may have replaced the file while this one waited.
            if self._read_file_id() == self._file_id:
                rebuilt = self.path.with_name(self.path.name + ".rebuilt")
                _delete(rebuilt)
                kept = _copy_readable(self.path, rebuilt)
                aside = _set_aside(self.path)
                rebuilt.replace(self.path)
                _log.warning(
                    "The reply cache %s was damaged: %d readable replies were copied into a new one, and the damaged "
                    "file is now %s.",
                    self.path,
                    kept,
                    aside.name,
                )
            self._file_id = self._read_file_id()
            return self._open(read_only=False)

    def _read_file_id(self) -> int | None:
        try:
            return self.path.stat().st_ino
        except OSError:
            return None

    def _open(self, read_only: bool) -> sqlite3.Connection:
        if not read_only:
            try:
                return self._check(_connect(self.path, "rwc"), create=True)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _NOT_WRITABLE or not self.path.is_file():
                    raise
        try:
            return self._check(_connect(self.path, "ro"), create=False)
        except sqlite3.OperationalError:
            # Readers need a shared-memory file beside the database, which a read-only medium does not let them make.
            # Without a log there is nothing to share, and the file can be read as it is.
            if self.path.with_name(self.path.name + "-wal").exists():
                raise
            return self._check(_connect(self.path, "ro&immutable=1"), create=False)

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


def reply_store_path() -> Path:
    """Return the file that holds the replies of this machine."""
    return cache_dir() / "replies.sqlite"


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def _copy_readable(damaged: Path, rebuilt: Path) -> int:
    """Copy the replies that can be read and match their seals; return how many there are."""
    kept = 0
    with ReplyStore(rebuilt) as store:
        store._db.execute("BEGIN")
        for row in _read_rows(damaged):
            with suppress(DamagedReplyError):
                kept += store.add(_read_row(row))
        store._db.execute("COMMIT")
    return kept


def _read_rows(path: Path) -> Iterator[_Row]:
    """Read rows from the front until one fails, then from the back. Rows may come twice."""
    for order in ("ASC", "DESC"):
        query = f"SELECT {_COLUMNS} FROM replies NOT INDEXED ORDER BY rowid {order}"  # noqa: S608 (constants)
        with suppress(sqlite3.DatabaseError), closing(_connect(path, "ro")) as db:
            yield from db.execute(query)
            return


def _set_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.replace(aside)
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).replace(aside.with_name(aside.name + ending))
    return aside


def _delete(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


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


# Texts are read as bytes, because a damaged one may not be UTF-8.
_COLUMNS = "CAST(key AS BLOB), CAST(model AS BLOB), created, CAST(reply AS BLOB), seal"
_Row = tuple[bytes, bytes, Any, bytes, str | None]


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    # Used by one thread at a time, but not always by the one that opened it.
    db = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    # A flipped bit can make invalid UTF-8; the seal does not match then.
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return db


def _read_row(row: _Row) -> StoredReply:
    key_bytes, model, created, text, seal = row
    # A flipped bit in the head of a row can make a column empty.
    if not (isinstance(key_bytes, bytes) and isinstance(model, bytes) and isinstance(text, bytes)):
        raise DamagedReplyError(str(key_bytes))
    key = key_bytes.decode("utf-8", "replace")
    if seal != seal_row(key_bytes, model, created, text):
        raise DamagedReplyError(key)
    return StoredReply(key, model.decode("utf-8", "replace"), created, _from_json(key, text), seal)


def seal_row(key: bytes, model: bytes, created: object, text: bytes) -> str:
    """Gives the seal of a row: a hash of all that it holds."""
    parts = (key, model, repr(created).encode(), text)
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()[:32]


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


def import_lines(lines: Iterable[bytes], store: ReplyStore) -> ImportCounts:
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


def _get_whole(store: ReplyStore, key: str) -> ChatReply | None:
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
