"""Answers a request from the cache where the same model was sent the same request before.

Replies are in one SQLite file on a local disk, shared by runs and processes. A commit is on disk before `put` returns.
Each reply has a seal, a hash of its whole row: an edited or damaged reply is never returned. A file that SQLite cannot
read is set aside, and its readable replies are copied.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
import logging
import re
import shutil
import sqlite3
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from pydantic import TypeAdapter, ValidationError

from beliefrag.errors import ModelError, ReplayMiss, SettingsError
from beliefrag.file_lock import hold_lock
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest, ModelLayer, TokenProbability
from beliefrag.settings import cache_dir

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_APPLICATION = 0x42525247
"""Marks the file as ours so that a database of another program is never written to."""
_VERSION = 2
_BUSY_SECONDS = 10.0
_REPLY_FIELDS = ("text", "tokens_in", "tokens_out", "seconds", "counted_by", "retries", "wasted_tokens")
_FILES = ("", "-wal", "-shm")
_PAGE = 4096
"""Bytes of a page, SQLite's default."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# Texts are read as bytes, because a damaged one may not be UTF-8.
_SELECT = "SELECT CAST(key AS BLOB), CAST(model AS BLOB), created, CAST(reply AS BLOB), seal FROM replies"
_VALUES = "INTO replies (key, model, created, reply, seal) VALUES (?, ?, ?, ?, ?)"


def reply_key(identity: str, request: ChatRequest) -> str:
    """Return the key of a reply: a hash of the model's identity and of the whole request except its purpose.

    The order of a schema's fields counts. Requests without stop texts have the keys from before there were any.
    """
    parts: list[Any] = [
        1,  # the version of this list
        identity,
        [[message.role, message.content] for message in request.messages],
        request.schema,
        request.max_tokens,
        request.top_logprobs,
        request.sample,
        0,  # the temperature; a provider that uses another has it in its identity
    ]
    if request.stop:
        parts.append(request.stop)
    return hashlib.sha256(json.dumps(parts, separators=(",", ":"), default=dict).encode()).hexdigest()


class CachedModel(ModelLayer):
    """Answers from the store where it holds the reply; otherwise calls the model and stores its reply.

    Of two equal requests at the same time, the second waits for the first. A reply that cannot be stored is still
    returned. A damaged one is asked for again. A replay uses the store alone, and raises `ReplayMiss` for requests that
    it does not hold.
    """

    def __init__(self, model: ChatModel, path: Path, *, replay: bool = False) -> None:
        super().__init__(model)
        self._replay = replay
        self._store = ReplyStore(path, read_only=replay)
        # A commit waits for the disk and for other processes: not on the event loop. One thread, because only one at a
        # time may use the connection.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reply-cache")
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._missing: set[str] = set()
        self._has_warned = False
        self._closed = False

    @property
    def missing_keys(self) -> frozenset[str]:
        """The keys of the requests that a replay found no reply for."""
        return frozenset(self._missing)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Return the stored reply, or call the model and store its reply."""
        key = reply_key(self.identity, request)
        if self._replay:
            # Reading waits for no other process, and takes less time than handing the work to the thread.
            if found := self._find(key):
                return found
            self._missing.add(key)
            raise ReplayMiss(
                f"The cache holds no reply for this {request.purpose} call (key {key[:12]}).",
                remedy="Run it without replay, with the same model and settings.",
            )
        async with self._locks.setdefault(key, asyncio.Lock()):
            return await self._find_or_call(key, request)

    async def aclose(self) -> None:
        """Close the store and the model inside. Calling it twice is harmless."""
        if not self._closed:
            self._closed = True
            await self._in_thread(self._store.close)
            self._thread.shutdown(wait=False)
        await self._model.aclose()

    def _find(self, key: str) -> ChatReply | None:
        try:
            return self._store.get(key)
        except DamagedReplyError as error:
            _log.warning("%s", error.message)
            return None
        except sqlite3.Error as error:
            remedy = "Set BELIEFRAG_CACHE_DIR to another folder, or use --set cache=false."
            raise ModelError(f"The reply cache {self._store.path} cannot be read: {error}.", remedy=remedy) from error

    async def _find_or_call(self, key: str, request: ChatRequest) -> ChatReply:
        found = await self._in_thread(lambda: self._find(key))
        if found is not None:
            return found
        reply = await self._model.chat(request)
        try:
            return await self._in_thread(lambda: self._store.put(key, self.identity, reply))
        except sqlite3.Error as error:
            if not self._has_warned:
                self._has_warned = True
                text = "%s cannot be written: %s. The run continues without storing replies."
                _log.warning(text, self._store.path, error)
            return reply

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        # Shielded, because a cancellation would drop work that waits for the thread: a reply paid for, and not stored.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply with its key and its model, stored at a time in seconds since 1970."""

    key: str
    model: str
    created: float
    reply: ChatReply
    seal: str | None = None
    """The hash of the row; None in files that were exported before there were seals."""


class DamagedReplyError(SettingsError):
    """A stored reply does not match its seal, or cannot be read."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The cached reply {key[:12]} is damaged.", remedy="Run once without replay to ask for it again."
        )


class ReplyStore(contextlib.AbstractContextManager["ReplyStore"]):
    """Replies by key, in a file that several processes can open at a time.

    It is created if it is missing; `read_only` fails then. A file of another kind or version is a `SettingsError`.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._read_only = read_only
        if read_only and not self.path.is_file():
            remedy = "Run once without replay to create it."
            raise SettingsError(f"No reply cache exists at {self.path}.", remedy=remedy)
        try:
            if not read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                if _size(self.path) == 0:
                    self._make(lambda: _size(self.path) == 0)
            self._opened = self.path.stat().st_ino
            try:
                self._db = self._open()
            except sqlite3.DatabaseError as error:
                if read_only or not _is_damage(error):
                    raise
                self._recover()
        except (OSError, ModelError, sqlite3.Error) as error:
            remedy = "Set BELIEFRAG_CACHE_DIR to a folder that can be written to, or use --set cache=false."
            if isinstance(error, sqlite3.Error) and _is_damage(error):
                remedy = "Run once without replay: a new cache with the readable replies is made."
            said = getattr(error, "strerror", None) or error
            raise SettingsError(f"The reply cache {self.path} cannot be opened: {said}.", remedy=remedy) from error

    def get(self, key: str) -> ChatReply | None:
        """Return the reply with this key, if any; raise `DamagedReplyError` where it does not match its seal."""
        row = self._run(lambda db: db.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone())
        return None if row is None else _read_row(row).reply

    def put(self, key: str, model: str, reply: ChatReply) -> ChatReply:
        """Store a reply and return the one that the store holds from now on: an earlier whole one stays."""
        row = _row(StoredReply(key, model, time.time(), reply))
        if self._run(lambda db: db.execute(f"INSERT OR IGNORE {_VALUES}", row).rowcount):
            return reply
        try:
            return self.get(key) or reply
        except DamagedReplyError:
            self._run(lambda db: db.execute(f"INSERT OR REPLACE {_VALUES}", row))
            return reply

    def count(self) -> dict[str, int]:
        """Count the replies of each model."""
        return dict(self._db.execute("SELECT model, count(*) FROM replies GROUP BY model ORDER BY model"))

    def __iter__(self) -> Iterator[StoredReply]:
        """Yield all replies, oldest first. Damaged ones are skipped with a warning in the log."""
        for row in self._db.execute(f"{_SELECT} ORDER BY created, key"):
            try:
                yield _read_row(row)
            except DamagedReplyError as error:
                _log.warning("%s It is skipped.", error.message)

    def close(self) -> None:
        """Close the file. Calling it twice is harmless."""
        self._db.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run a statement, on a recovered file if this one is damaged."""
        try:
            return work(self._db)
        except sqlite3.DatabaseError as error:
            if self._read_only or not _is_damage(error):
                raise
            self._db.close()
            self._recover()
            return work(self._db)

    def _recover(self) -> None:
        """Set the damaged file aside, copy its readable replies into a new one, and open that."""
        self._make(lambda: self.path.stat().st_ino == self._opened)
        self._opened = self.path.stat().st_ino
        self._db = self._open()

    def _make(self, is_needed: Callable[[], bool]) -> None:
        """Put a new file in place, with the readable replies of a damaged one, unless another process was faster."""
        with hold_lock(_path_beside(self.path, ".lock")):
            if not is_needed():
                return
            new = _path_beside(self.path, ".new")
            for ending in _FILES:
                _path_beside(new, ending).unlink(missing_ok=True)
            kept = 0
            with closing(_connect(new, "rwc")) as db:
                db.execute("PRAGMA journal_mode = WAL")
                columns = "key TEXT PRIMARY KEY, model TEXT NOT NULL, created REAL NOT NULL, reply TEXT NOT NULL"
                db.execute(f"CREATE TABLE replies ({columns}, seal TEXT)")
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
                db.execute(f"PRAGMA user_version = {_VERSION}")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                patched = _path_beside(self.path, ".patched")
                if _size(self.path):
                    _copy_with_first_page(self.path, new, patched)
                db.execute("BEGIN")
                for row in chain(_read_rows(self.path), _read_rows(patched)):
                    with suppress(DamagedReplyError):
                        kept += db.execute(f"INSERT OR IGNORE {_VALUES}", _row(_read_row(row))).rowcount
                db.execute("COMMIT")
                patched.unlink(missing_ok=True)
            if _size(self.path):
                aside = _path_beside(self.path, f".damaged-{time.time_ns() // 1_000_000}")
                for ending in _FILES:
                    with suppress(FileNotFoundError):
                        _path_beside(self.path, ending).replace(_path_beside(aside, ending))
                text = "The reply cache %s was damaged and is now %s; its %d readable replies were kept."
                _log.warning(text, self.path, aside.name, kept)
            new.replace(self.path)

    def _open(self) -> sqlite3.Connection:
        db = _connect(self.path, "ro" if self._read_only else "rw")
        try:
            (application,), (version,) = (
                db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
            )
            if (application, version) != (_APPLICATION, _VERSION):
                what = f"has version {version}, not {_VERSION}" if application == _APPLICATION else "is not ours"
                remedy = "Name another cache file, or move that one away."
                raise SettingsError(f"The reply cache {self.path} {what}.", remedy=remedy)
            # Read now so that a damaged file is found before anything is paid for.
            db.execute("SELECT reply FROM replies LIMIT 1").fetchone()
            db.execute("PRAGMA synchronous = FULL")
        except BaseException:
            db.close()
            raise
        return db


def reply_store_path() -> Path:
    """Return the file that holds the replies of this machine."""
    return cache_dir() / "replies.sqlite"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _path_beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    # Used by one thread at a time, but not always by the one that opened it.
    db = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    # A flipped bit can make invalid UTF-8; the seal does not match then.
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return db


_Row = tuple[bytes, bytes, Any, bytes, str | None]


def _read_rows(path: Path) -> Iterator[_Row]:
    """Yield rows from the front until one fails, then from the back, then row by row. Rows may come twice."""
    for query in ("ORDER BY rowid ASC", "ORDER BY rowid DESC", "WHERE rowid = ?"):
        with suppress(sqlite3.DatabaseError), closing(_connect(path, "ro")) as db:
            # SQLite then reads a file that is shorter than its header says.
            db.execute("PRAGMA writable_schema = ON")
            if not query.endswith("?"):
                yield from db.execute(f"{_SELECT} NOT INDEXED {query}")
                return
            # A row has a hundred bytes at least.
            for number in range(1, _size(path) // 100):
                with suppress(sqlite3.DatabaseError):
                    yield from db.execute(f"{_SELECT} NOT INDEXED {query}", (number,))


def _copy_with_first_page(damaged: Path, made: Path, copy: Path) -> None:
    """Copy a damaged file with the first page of a new one, which holds the header and the schema."""
    with damaged.open("rb") as old, made.open("rb") as new, copy.open("wb") as out:
        first = new.read(_PAGE)
        # A file that lost its beginning is not a multiple of pages any more.
        old.seek(_size(damaged) % _PAGE or _PAGE)
        out.write(first)
        shutil.copyfileobj(old, out)
        pages = -(-out.tell() // _PAGE)
        out.seek(28)  # where a header has the number of pages
        out.write(pages.to_bytes(4))


def _row(stored: StoredReply) -> tuple[str, str, float, str, str]:
    text = reply_to_json(stored.reply)
    seal = seal_row(stored.key.encode(), stored.model.encode(), stored.created, text.encode())
    return stored.key, stored.model, stored.created, text, seal


def _read_row(row: _Row) -> StoredReply:
    key_bytes, model, created, text, seal = row
    # A flipped bit in the head of a row can make a column empty.
    if not (isinstance(key_bytes, bytes) and isinstance(model, bytes) and isinstance(text, bytes)):
        raise DamagedReplyError(str(key_bytes))
    key = key_bytes.decode("utf-8", "replace")
    if seal != seal_row(key_bytes, model, created, text):
        raise DamagedReplyError(key)
    return StoredReply(key, model.decode("utf-8", "replace"), created, read_reply_json(key, text), seal)


def seal_row(key: bytes, model: bytes, created: object, text: bytes) -> str:
    """Return the seal of a row: a hash of all that it holds."""
    parts = (key, model, repr(created).encode(), text)
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()[:32]


def reply_to_json(reply: ChatReply) -> str:
    """Write a reply in the form in which stores hold it."""
    value: dict[str, Any] = {name: getattr(reply, name) for name in _REPLY_FIELDS}
    if reply.truncated:
        value["truncated"] = True
    if reply.tokens is not None:
        value["tokens"] = [[token.token, token.logprob, token.top] for token in reply.tokens]
    return json.dumps(value, separators=(",", ":"))


def read_reply_json(key: str, text: str | bytes) -> ChatReply:
    """Read a reply from the form in which stores hold it, or raise `DamagedReplyError`."""
    try:
        value = json.loads(text)
        tokens = value.pop("tokens", None)
        if tokens is not None:
            tokens = tuple(TokenProbability(t, logprob, tuple((o, p) for o, p in top)) for t, logprob, top in tokens)
        reply = ChatReply(**value, tokens=tokens, cached=True)
        if not (isinstance(reply.text, str) and isinstance(reply.tokens_in, int) and isinstance(reply.tokens_out, int)):
            raise TypeError
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise DamagedReplyError(key) from None
    return reply


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """How many replies an import added, how many were known, and how many the store holds with another text."""

    added: int
    known: int
    different: int


_STORED = TypeAdapter(StoredReply)


def export_lines(store: Iterable[StoredReply]) -> Iterator[bytes]:
    """Yield each reply as one line of JSON."""
    return (_STORED.dump_json(stored) + b"\n" for stored in store)


def import_replies(file: Path) -> ImportCounts:
    """Put the replies of an exported file, plain or gzipped, into the cache. A damaged file changes nothing."""
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            replies = [_read_line(line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise SettingsError(f"{file} is a broken gzip file: {problem}.", remedy="Copy or download it again.") from None
    counts = Counter[str]()
    with ReplyStore(reply_store_path()) as store:
        for stored in replies:
            before = None
            with suppress(DamagedReplyError):
                before = store.get(stored.key)
            if before is None:
                store.put(stored.key, stored.model, replace(stored.reply, cached=False))
            counts["added" if before is None else "known" if before.text == stored.reply.text else "different"] += 1
    return ImportCounts(counts["added"], counts["known"], counts["different"])


def _read_line(line: bytes, number: int) -> StoredReply:
    problem = "is not an exported reply"
    with suppress(ValidationError):
        stored = _STORED.validate_json(line)
        if re.fullmatch(r"[0-9a-f]{64}", stored.key) and stored.seal in (None, _row(stored)[-1]):
            return stored
        problem = "was changed after it was exported"
    raise SettingsError(f"Line {number} {problem}.", remedy="Give a file made with 'beliefrag cache export'.")
