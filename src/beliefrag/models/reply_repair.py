"""Saves what is whole of a damaged reply store.

Damage has two forms. A row that does not match its seal is found by reading it. A damaged page of the file makes SQLite
refuse to read what lies on it; the rows around it can still be read by their numbers, in ever smaller ranges.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from beliefrag.errors import SettingsError
from beliefrag.models.postgres_replies import PostgresReplyStore, StoreFailure
from beliefrag.models.reply_store import (
    DamagedReplyError,
    ReplyStore,
    StoredReply,
    StoredRow,
    read_row,
    select_columns,
)

__all__ = ["RepairReport", "repair_database", "repair_store"]

_ROWS_AT_ONCE = 512
_MOST_ROWS_PER_PAGE = 64
"""A row has a key of 64 characters twice, so no page of 4,096 bytes holds more."""


@dataclass
class RepairReport:
    """What a repair kept and lost."""

    kept: int = 0
    damaged: list[str] = field(default_factory=list)
    """The keys of replies that could be found but do not match their seals."""
    unreadable: int = 0
    """Numbers of rows that lie on damaged pages. Some of them may have been deleted before."""
    set_aside: Path | None = None
    """Where the damaged file is now; None if the file itself was sound."""


def repair_database(address: str) -> RepairReport:
    """Removes the damaged replies of a store in PostgreSQL. Others may use it in the meantime.

    Damaged pages are the server's to repair: whatever it refuses to read is an error here.

    Raises:
        SettingsError: The database cannot be used, or refuses to be read.
    """
    with PostgresReplyStore(address) as store:
        try:
            whole, damaged = store.find_damaged()
            for key in damaged:
                store.remove(key)
        except StoreFailure as failure:
            raise SettingsError(
                f"The reply cache {store.path} cannot be read: {failure}.",
                remedy="Repair or restore the database.",
            ) from None
    return RepairReport(kept=whole, damaged=damaged)


def repair_store(path: Path) -> RepairReport:
    """Repairs a store: a sound file loses its damaged replies, a damaged file is replaced by one with the whole ones.

    The damaged file is kept beside the new one. Nothing else may use the store in the meantime.

    Raises:
        SettingsError: There is no file, or nothing at all can be read from it.
    """
    if not path.is_file():
        raise SettingsError(f"There is no reply cache at {path}.", remedy="There is nothing to repair.")
    report = RepairReport()
    rebuilt = path.with_name(path.name + ".rebuilt")
    _remove(rebuilt)
    try:
        with closing(_open_as_it_is(path)) as damaged, ReplyStore(rebuilt) as store:
            sound = _is_sound(damaged)
            for stored in _whole_replies(damaged, path, report):
                report.kept += 1
                if not sound:
                    store.add(stored)
        if sound:
            with ReplyStore(path) as original:
                for key in report.damaged:
                    original.remove(key)
        else:
            report.set_aside = _set_aside(path)
            rebuilt.replace(path)
    except sqlite3.DatabaseError as error:
        raise SettingsError(
            f"Nothing can be read from the reply cache {path}: {error}.",
            remedy="Move the file away; a new one is made.",
        ) from error
    finally:
        _remove(rebuilt)
    return report


def _open_as_it_is(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return db


def _is_sound(db: sqlite3.Connection) -> bool:
    try:
        return db.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
    except sqlite3.DatabaseError:
        return False


def _whole_replies(db: sqlite3.Connection, path: Path, report: RepairReport) -> Iterator[StoredReply]:
    columns = select_columns(db)
    last = _last_row_number(db, path)
    for first in range(1, last + 1, _ROWS_AT_ONCE):
        for row in _read_range(db, columns, first, min(last, first + _ROWS_AT_ONCE - 1), report):
            try:
                yield read_row(row)
            except DamagedReplyError as error:
                report.damaged.append(error.key)


def _last_row_number(db: sqlite3.Connection, path: Path) -> int:
    for source in ("replies NOT INDEXED", "replies INDEXED BY sqlite_autoindex_replies_1"):
        with suppress(sqlite3.DatabaseError):
            found: int | None = db.execute(f"SELECT max(rowid) FROM {source}").fetchone()[0]  # noqa: S608 (constants)
            return found or 0
    return path.stat().st_size // 4096 * _MOST_ROWS_PER_PAGE


def _read_range(
    db: sqlite3.Connection, columns: str, first: int, last: int, report: RepairReport
) -> Iterator[StoredRow]:
    query = f"SELECT {columns} FROM replies NOT INDEXED WHERE rowid BETWEEN ? AND ? ORDER BY rowid"  # noqa: S608
    try:
        rows = db.execute(query, (first, last)).fetchall()
    except sqlite3.DatabaseError:
        if first == last:
            report.unreadable += 1
            return
        middle = (first + last) // 2
        yield from _read_range(db, columns, first, middle, report)
        yield from _read_range(db, columns, middle + 1, last, report)
    else:
        yield from rows


def _set_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.replace(aside)
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).replace(aside.with_name(aside.name + ending))
    return aside


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
