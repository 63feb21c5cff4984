"""Fills a table of PostgreSQL: one transaction for each batch, so that a kill of client or server loses nothing.

A table NAME comes with NAME_state, one row that says what the table holds, and NAME_files, the files that were read.
All three change in the same transaction. The BM25 index is made when all passages of the first run are there, which is
several times faster than growing it; until then the table cannot be searched, and a later run goes on where the
committed transactions end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors, sql

from beliefrag.errors import CorpusError, SettingsError
from beliefrag.retrieval.bm25 import passage_terms
from beliefrag.retrieval.engines.engine import check_address, content_of
from beliefrag.retrieval.engines.filling import Batch, BatchSession, try_again
from beliefrag.retrieval.engines.postgres import (
    FORMAT,
    PG_SEARCH,
    PG_TEXTSEARCH,
    PostgresOptions,
    find_extension,
    table_names,
)
from beliefrag.retrieval.engines.postgres_connection import BoundedConnection, connect, explain_postgres_errors
from beliefrag.retrieval.store import CorpusState, IndexedFile
from beliefrag.retrieval.writer import QUICKLY_REWRITTEN, IndexBusy, StoredPassage
from beliefrag.types import Passage

__all__ = ["PostgresSession"]

_BUILD_SECONDS = 24 * 3600.0
"""How long making the BM25 index may take."""
_LOST = (psycopg.OperationalError, psycopg.InterfaceError)


class PostgresSession(BatchSession):
    """One writer's turn at a table, which is made if it is not there.

    Raises:
        IndexBusy: Another writer is at work.
        CorpusError: The table is another one, or the server has no search extension.
        RetrievalError: The server cannot be reached.
    """

    def __init__(self, options: PostgresOptions) -> None:
        check_address(options.url, schemes=("postgresql", "postgres"), variable="PGPASSWORD")
        if options.is_own_table:
            raise SettingsError(
                f"{options.table} is a table of your own, which BeliefRAG only reads.",
                remedy="Leave text=, title=, id= and source= out to make a table, or insert the rows yourself.",
            )
        self._options = options
        self.name = f"The table {options.table}"
        self._table, self._state, self._files_table, self._index = table_names(options)
        with explain_postgres_errors(options.table):
            self._connection = self._connect()
            try:
                self._make_tables()
                self._version, state = self._read_version()
                rows = self._connection.execute(sql.SQL("SELECT * FROM {}").format(self._files_table)).fetchall()
            except BaseException:
                self.close()
                raise
        self._begin(state, {os.fsdecode(bytes(path)): IndexedFile(*record) for path, *record in rows})

    def _connect(self) -> BoundedConnection:
        connection = connect(self._options.url, seconds=max(60.0, self._options.timeout))
        locked = connection.execute(
            "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (f"beliefrag {self._options.table}",)
        ).fetchone()
        if not (locked and locked[0]):
            connection.close()
            raise IndexBusy(
                f"The table {self._options.table} is being written by another process.",
                remedy="Wait until that one has finished, or write to another table.",
            )
        return connection

    def _make_tables(self) -> None:
        with self._connection.transaction():
            self._extension = self._make_extension()
            if self._extension == PG_SEARCH and (self._options.k1, self._options.b) != (1.2, 0.75):
                raise SettingsError(
                    f"pg_search has k1 1.2 and b 0.75, not {self._options.k1:g} and {self._options.b:g}.",
                    remedy="Leave k1 and b out, or use a database with pg_textsearch.",
                )
            terms = sql.SQL(", terms text NOT NULL" if self._extension == PG_TEXTSEARCH else "")
            found = self._connection.execute(
                "SELECT to_regclass(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL",
                (self._table.as_string(self._connection), self._state.as_string(self._connection)),
            ).fetchone()
            if found == (True, True):
                return
            if found != (False, False):
                raise CorpusError(
                    f"The table {self._options.table} was not made by BeliefRAG.", remedy="Name another table to fill."
                )
            statements = (
                sql.SQL(
                    "CREATE TABLE {} (id text PRIMARY KEY, title text NOT NULL, content text NOT NULL, "
                    "sources text[] NOT NULL, digest bytea NOT NULL{})"
                ).format(self._table, terms),
                sql.SQL("CREATE INDEX ON {} USING gin (sources)").format(self._table),
                sql.SQL(
                    "CREATE TABLE {} (path bytea PRIMARY KEY, sha256 text NOT NULL, size bigint NOT NULL, "
                    "mtime_ns bigint NOT NULL, ctime_ns bigint NOT NULL)"
                ).format(self._files_table),
                sql.SQL(
                    "CREATE TABLE {} (format int NOT NULL, version bigint NOT NULL, passages bigint NOT NULL, "
                    "total text NOT NULL, dead bigint NOT NULL)"
                ).format(self._state),
                sql.SQL("INSERT INTO {} VALUES ({}, 0, 0, '0', 0)").format(self._state, sql.Literal(FORMAT)),
            )
            for statement in statements:
                self._connection.execute(statement)

    def _make_extension(self) -> str:
        have = find_extension(self._connection.execute("SELECT extname FROM pg_extension").fetchall())
        if have:
            return have
        offered = find_extension(self._connection.execute("SELECT name FROM pg_available_extensions").fetchall())
        if offered is None:
            raise CorpusError(
                "This PostgreSQL server has neither pg_search nor pg_textsearch.",
                remedy="Install one of them on the server.",
            )
        try:
            with self._connection.transaction():
                self._connection.execute(sql.SQL("CREATE EXTENSION {}").format(sql.Identifier(offered)))
        except psycopg.Error as problem:
            raise CorpusError(
                f"The extension {offered} cannot be made: {' '.join(str(problem).split())[:200]}",
                remedy=f"Let an administrator run CREATE EXTENSION {offered} in this database.",
            ) from problem
        return offered

    def _read_version(self) -> tuple[int, CorpusState]:
        row = self._connection.execute(
            sql.SQL("SELECT format, version, passages, total FROM {}").format(self._state)
        ).fetchone()
        if row is None or row[0] != FORMAT:
            raise CorpusError(
                f"The table {self._options.table} has a state that this BeliefRAG does not read.",
                remedy="Name another table, or drop this one.",
            )
        return int(row[1]), CorpusState(int(row[2]), int(row[3], 16))

    def _read_stored(self, ids: Sequence[str]) -> Mapping[str, StoredPassage]:
        found: dict[str, StoredPassage] = {}

        def read() -> None:
            rows = self._connection.execute(
                sql.SQL("SELECT id, digest, sources FROM {} WHERE id = ANY(%s)").format(self._table), (list(ids),)
            ).fetchall()
            found.update({name: StoredPassage(int.from_bytes(digest), tuple(s)) for name, digest, s in rows})

        try_again(read, on=_LOST, repair=self._reconnect)
        return found

    def _read_passage(self, passage_id: str) -> tuple[Passage, tuple[str, ...]] | None:
        row = self._connection.execute(
            sql.SQL("SELECT id, title, substr(content, char_length(title) + 2), sources FROM {} WHERE id = %s").format(
                self._table
            ),
            (passage_id,),
        ).fetchone()
        if row is None:
            return None
        name, title, text, sources = row
        return Passage(name, title, text, sources[0] if sources else ""), tuple(sources)

    def _read_ids_of(self, source: str) -> set[str]:
        found: set[str] = set()

        def read() -> None:
            rows = self._connection.execute(
                sql.SQL("SELECT id FROM {} WHERE sources @> %s").format(self._table), ([source],)
            ).fetchall()
            found.update(row[0] for row in rows)

        try_again(read, on=_LOST, repair=self._reconnect)
        return found

    def _write(self, batch: Batch) -> None:
        try_again(lambda: self._write_once(batch), on=_LOST, repair=self._reconnect)
        self._version += 1

    def _write_once(self, batch: Batch) -> None:
        connection = self._connection
        with connection.transaction():
            version, _ = self._read_version()
            if version == self._version + 1:
                return  # The reply to an earlier attempt was lost, and the server had committed it.
            if version != self._version:
                raise CorpusError(f"The table {self._options.table} was changed by somebody else.", remedy="Run again.")
            if batch.removed:
                connection.execute(
                    sql.SQL("DELETE FROM {} WHERE id = ANY(%s)").format(self._table), (list(batch.removed),)
                )
            self._copy(batch)
            gone = [os.fsencode(path) for path, record in batch.files.items() if record is None]
            kept = [(os.fsencode(path), *_record(record)) for path, record in batch.files.items() if record]
            changed = gone + [path for path, *_ in kept]
            connection.execute(sql.SQL("DELETE FROM {} WHERE path = ANY(%s)").format(self._files_table), (changed,))
            with connection.cursor() as cursor:
                insert = sql.SQL("INSERT INTO {} VALUES (%s, %s, %s, %s, %s)").format(self._files_table)
                cursor.executemany(insert, kept)
            connection.execute(
                sql.SQL("UPDATE {} SET version = version + 1, passages = %s, total = %s, dead = dead + %s").format(
                    self._state
                ),
                (batch.after.passages, f"{batch.after.total:x}", len(batch.removed)),
            )

    def _copy(self, batch: Batch) -> None:
        if not batch.puts:
            return
        with_terms = self._extension == PG_TEXTSEARCH
        columns = sql.SQL("id, title, content, sources, digest" + (", terms" if with_terms else ""))
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(self._table, columns)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for passage, stored in batch.puts.values():
                content = content_of(passage)
                row: list[Any] = [passage.id, passage.title, content, list(stored.sources)]
                row.append(stored.digest.to_bytes(32))
                if with_terms:
                    row.append(" ".join(passage_terms(content)))
                copy.write_row(row)

    def _reconnect(self) -> None:
        self._connection.close()
        self._connection = self._connect()

    def finish(self) -> None:
        """Makes the BM25 index where there is none, and makes it again where deleted passages distort its statistics.

        An extension counts deleted passages in its statistics until they are cleared away, and one of them even after
        that. The index is made again when that takes a moment, or when the dead are more than a tenth of the living.
        """
        with self.explain_write_errors():
            try_again(self._make_index, on=_LOST, repair=self._reconnect)
            row = self._connection.execute(sql.SQL("SELECT dead, passages FROM {}").format(self._state)).fetchone()
            dead, passages = row or (0, 0)
            if dead and (passages <= QUICKLY_REWRITTEN or 10 * dead > passages):
                try_again(self._make_index_again, on=_LOST, repair=self._reconnect)

    def _make_index_again(self) -> None:
        *schema, _ = self._options.table.split(".")
        statement = sql.SQL("REINDEX INDEX {}").format(sql.Identifier(*schema, self._index))
        with self._long_requests():
            self._connection.execute(sql.SQL("VACUUM {}").format(self._table))
            self._connection.execute(statement)
            self._connection.execute(sql.SQL("UPDATE {} SET dead = 0").format(self._state))

    @contextmanager
    def _long_requests(self) -> Iterator[None]:
        before = self._connection.seconds
        self._connection.seconds = _BUILD_SECONDS
        try:
            yield
        finally:
            self._connection.seconds = before

    def _make_index(self) -> None:
        options = self._options
        name = sql.Identifier(self._index)
        if self._extension == PG_SEARCH:
            statement = sql.SQL(
                "CREATE INDEX IF NOT EXISTS {} ON {} USING bm25 "
                "(id, (content::pdb.simple('stemmer=english', 'remove_long=40'))) WITH (key_field = 'id')"
            ).format(name, self._table)
        else:
            statement = sql.SQL(
                "CREATE INDEX IF NOT EXISTS {} ON {} USING bm25 (terms) "
                "WITH (text_config = 'pg_catalog.simple', k1 = {}, b = {})"
            ).format(name, self._table, sql.Literal(options.k1), sql.Literal(options.b))
        with self._long_requests():
            self._connection.execute(statement)
            self._connection.execute(sql.SQL("ANALYZE {}").format(self._table))

    def close(self) -> None:
        """Lets another writer in. Calling it twice is harmless."""
        with suppress(psycopg.Error):
            # A server notices a closed connection a little later, and would keep the next writer out until then.
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()

    def _is_engine_error(self, problem: Exception) -> bool:
        return isinstance(problem, psycopg.Error | errors.Error)


def _record(record: IndexedFile) -> tuple[str, int, int, int]:
    return record.sha256, record.size, record.mtime_ns, record.ctime_ns
