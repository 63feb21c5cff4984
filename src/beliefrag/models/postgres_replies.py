"""Keeps replies in a table of a PostgreSQL database, which workers on many machines share.

It holds the same rows with the same seals as the file does. A commit is on the server's disk before `put` returns. Two
workers that store a reply under one key both get the one that came first. Where the connection breaks, or the server is
started again, the statement is repeated for a while: each of them may be repeated without harm.

The address has no password. libpq takes it from PGPASSWORD or from a .pgpass file.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from beliefrag.errors import SettingsError, explain_missing_extra
from beliefrag.models.protocol import ChatReply
from beliefrag.models.reply_store import (
    DamagedReplyError,
    StoredReply,
    StoreStats,
    read_row,
    reply_to_json,
    seal_row,
)

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

__all__ = ["MissingStoreError", "PostgresReplyStore", "StoreFailure", "UnreachableStoreError", "is_database_address"]

TABLE = "beliefrag_replies"
_MARK = "BeliefRAG replies, version 2"
_PATIENCE_SECONDS = 60.0
_STATEMENT_SECONDS = 30.0
_CONNECT_SECONDS = 10
_LOCK = 0x42525247
"""Whoever makes the table holds this lock: CREATE TABLE IF NOT EXISTS fails where two do it at the same moment."""
_COLUMNS = "key, model, created, reply, seal"
_ROWS_AT_ONCE = 500
_USE_OTHER = "Name another database in the setting cache."
_T = TypeVar("_T")


class StoreFailure(Exception):
    """The database did not do what it was asked to; the message says why, in one line."""


class MissingStoreError(SettingsError):
    """A store that was to be read alone is not there yet."""


class UnreachableStoreError(SettingsError):
    """The database's server did not answer; it may be started again in a moment."""


def is_database_address(place: object) -> bool:
    """Whether a store's place is the address of a PostgreSQL database, and not a file."""
    return isinstance(place, str) and place.startswith(("postgresql://", "postgres://"))


class PostgresReplyStore:
    """Replies by key, for any number of processes and machines at a time.

    Args:
        address: `postgresql://USER@HOST/NAME`. The table is made where there is none.
        read_only: Never write, and fail if there is no table.
        patience: Seconds to go on trying when the server is away.

    Raises:
        MissingExtra: The library for PostgreSQL is not installed.
        UnreachableStoreError: The server does not answer.
        SettingsError: The database cannot be reached or used, or the table is not ours.
    """

    def __init__(self, address: str, *, read_only: bool = False, patience: float = _PATIENCE_SECONDS) -> None:
        with explain_missing_extra("A reply cache in PostgreSQL", "postgres"):
            import psycopg  # noqa: PLC0415

        self._psycopg = psycopg
        self._address = address
        self._read_only = read_only
        self._patience = patience
        self._connection: Connection[tuple[Any, ...]] | None = None
        try:
            self.path = self._describe_place()
            self._connection = self._connect()
            self._check_table()
        except psycopg.Error as error:
            self.close()
            kind = UnreachableStoreError if _is_away(error, psycopg) else SettingsError
            raise kind(
                f"The reply cache {self._describe_place()} cannot be used: {_one_line(error)}.",
                remedy="Check the setting cache, the server, and PGPASSWORD where it asks for a password.",
            ) from None
        except BaseException:
            self.close()
            raise

    def get(self, key: str) -> ChatReply | None:
        """Finds the reply with this key, if there is one.

        Raises:
            DamagedReplyError: The reply does not match its seal. It stays until it is removed.
            StoreFailure: The database cannot be read.
        """
        query = f"SELECT {_COLUMNS} FROM {TABLE} WHERE key = %s"  # noqa: S608 (constants)
        row = self._run(lambda cursor: cursor.execute(query, (key,)).fetchone())
        return None if row is None else _read(row).reply

    def put(self, key: str, model: str, reply: ChatReply) -> ChatReply:
        """Stores a reply and returns the reply that the store holds under this key from now on.

        Raises:
            StoreFailure: It could not be stored.
        """
        return reply if self.add(StoredReply(key, model, time.time(), reply)) else self.get(key) or reply

    def add(self, stored: StoredReply) -> bool:
        """Stores a reply with the time that it has, and says whether it was new.

        Raises:
            StoreFailure: It could not be stored.
        """
        text = reply_to_json(stored.reply)
        seal = seal_row(stored.key.encode(), stored.model.encode(), stored.created, text.encode())
        row = (stored.key, stored.model, stored.created, text, seal)
        statement = f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"  # noqa: S608
        return bool(self._run(lambda cursor: cursor.execute(statement, row).rowcount))

    def remove(self, key: str) -> None:
        """Deletes the reply with this key.

        Raises:
            StoreFailure: It could not be deleted.
        """
        self._run(lambda cursor: cursor.execute(f"DELETE FROM {TABLE} WHERE key = %s", (key,)))  # noqa: S608

    def stats(self) -> StoreStats:
        """Counts the replies and their size."""
        count = f"SELECT model, count(*) FROM {TABLE} GROUP BY model ORDER BY model"  # noqa: S608
        rows = self._run(lambda cursor: cursor.execute(count).fetchall())
        size = self._run(
            lambda cursor: cursor.execute("SELECT pg_total_relation_size(%s::regclass)", (TABLE,)).fetchone()
        )
        return StoreStats(sum(count for _, count in rows), size[0] if size else 0, dict(rows))

    def __iter__(self) -> Iterator[StoredReply]:
        """Gives all replies, oldest first.

        Raises:
            DamagedReplyError: One of them is damaged.
            StoreFailure: The database cannot be read.
        """
        for row in self._rows("created, key", (float("-inf"), "")):
            yield _read(row)

    def find_damaged(self) -> tuple[int, list[str]]:
        """Reads every row, and gives how many are whole and the keys of those that are not."""
        whole, damaged = 0, []
        for row in self._rows("key", ("",)):
            try:
                _read(row)
                whole += 1
            except DamagedReplyError:
                damaged.append(row[0])
        return whole, damaged

    def delete_older_than(self, moment: float) -> int:
        """Deletes the replies stored before a moment (seconds since 1970), and returns how many there were."""
        statement = f"DELETE FROM {TABLE} WHERE created < %s"  # noqa: S608
        return int(self._run(lambda cursor: cursor.execute(statement, (moment,)).rowcount))

    def close(self) -> None:
        """Closes the connection. Calling it twice is harmless."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def __enter__(self) -> PostgresReplyStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _rows(self, order: str, after: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Gives all rows in an order, some at a time, so that no transaction stays open and memory stays flat."""
        columns = order.split(", ")
        marks = ", ".join(["%s"] * len(columns))
        query = f"SELECT {_COLUMNS} FROM {TABLE} WHERE ({order}) > ({marks}) ORDER BY {order} LIMIT {_ROWS_AT_ONCE}"  # noqa: S608
        while True:
            rows = self._select(query, after)
            yield from rows
            if len(rows) < _ROWS_AT_ONCE:
                return
            named = dict(zip(("key", "model", "created", "reply", "seal"), rows[-1], strict=True))
            after = tuple(named[column] for column in columns)

    def _select(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return self._run(lambda cursor: cursor.execute(query, values).fetchall())

    def _run(self, work: Callable[[Cursor[tuple[Any, ...]]], _T]) -> _T:
        """Runs a statement, on a new connection where the one before is broken."""
        give_up = time.monotonic() + self._patience
        pause = 0.05
        while True:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                with _limit_time(self._connection), self._connection.cursor() as cursor:
                    return work(cursor)
            except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
                self.close()
                if time.monotonic() + pause > give_up:
                    raise StoreFailure(_one_line(error)) from error
            except self._psycopg.Error as error:
                raise StoreFailure(_one_line(error)) from error
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _connect(self) -> Connection[tuple[Any, ...]]:
        options = "-c default_transaction_read_only=on" if self._read_only else ""
        return self._psycopg.connect(
            self._address,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            application_name="beliefrag",
            client_encoding="utf8",
            options=options,
        )

    def _describe_place(self) -> str:
        """Names the database and the server, and nobody's name or password."""
        parts = self._psycopg.conninfo.conninfo_to_dict(self._address)
        return f"database {parts.get('dbname', '')} of PostgreSQL at {parts.get('host', 'this machine')}"

    def _check_table(self) -> None:
        assert self._connection is not None
        if not self._read_only and self._find_mark() is None:
            with self._connection.transaction():
                self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                if self._find_mark() is None:
                    columns = "key text PRIMARY KEY, model text NOT NULL, created double precision NOT NULL"
                    self._connection.execute(
                        f"CREATE TABLE {TABLE} ({columns}, reply text NOT NULL, seal text NOT NULL)"
                    )
                    self._connection.execute(f"COMMENT ON TABLE {TABLE} IS '{_MARK}'")
        mark = self._find_mark()
        if mark is None:
            raise MissingStoreError(
                f"There is no reply cache in {self.path}.", remedy="Run once without replay to create it."
            )
        if mark != _MARK:
            raise SettingsError(
                f"The table {TABLE} in {self.path} is marked {mark[:60]!r}, and this BeliefRAG reads {_MARK!r}.",
                remedy=_USE_OTHER,
            )

    def _find_mark(self) -> str | None:
        """Reads the comment on the table; None where there is no table."""
        assert self._connection is not None
        query = "SELECT coalesce(obj_description(to_regclass(%s), 'pg_class'), '') WHERE to_regclass(%s) IS NOT NULL"
        found = self._connection.execute(query, (TABLE, TABLE)).fetchone()
        return None if found is None else str(found[0])


def _read(row: tuple[Any, ...]) -> StoredReply:
    key, model, created, text, seal = row
    return read_row((key.encode(), model.encode(), created, text.encode(), seal))


@contextmanager
def _limit_time(connection: Connection[tuple[Any, ...]]) -> Iterator[None]:
    """Breaks a connection that gives no sign for too long, as behind a network that has stalled."""

    def cut() -> None:
        with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(_STATEMENT_SECONDS, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_away(error: Exception, psycopg: ModuleType) -> bool:
    """Whether a server may be there in a moment: it broke the connection or took none, and asked for no password."""
    line = getattr(error, "pgconn", None)
    return isinstance(error, psycopg.OperationalError) and not (line and (line.needs_password or line.used_password))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
