"""PostgreSQL with ParadeDB's pg_search or with pg_textsearch: searching a table, and filling one.

A table of ours has the terms of the embedded engine, and comes with NAME_state, one row that records what it holds. A
table of the user's own is searched through the BM25 index that it has.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, LiteralString

from pydantic import Field

from beliefrag.errors import BeliefRAGError, CorpusError, RetrievalError, SettingsError, explain_missing_extra
from beliefrag.retrieval.bm25 import Bm25Index, passage_terms, query_terms, query_words
from beliefrag.retrieval.engines.engine_retriever import (
    EngineDescription,
    EngineOptions,
    IndexState,
    check_address,
    check_filterable,
    content_of,
    one_line,
    open_on_engine,
    read_metadata,
)
from beliefrag.retrieval.engines.filling import Changes, Held
from beliefrag.retrieval.filters import FILE, PATH, Both, Either, Filter, Not, matching_values
from beliefrag.retrieval.protocol import RETRIEVERS, Retriever
from beliefrag.retrieval.store import CorpusState
from beliefrag.retrieval.writer import QUICKLY_REWRITTEN, IndexBusy
from beliefrag.types import Passage

with explain_missing_extra("Search on PostgreSQL", "postgres"):
    import psycopg
    from psycopg import errors, sql
    from psycopg_pool import ConnectionPool

if TYPE_CHECKING:
    from beliefrag.retrieval.protocol import PassageSource

Row = tuple[Any, ...]
Statement = LiteralString | sql.SQL | sql.Composed
Values = Sequence[Any] | Mapping[str, Any]

_PG_SEARCH = "pg_search"
_PG_TEXTSEARCH = "pg_textsearch"
_FORMAT = 2
_BUILD_SECONDS = 24 * 3600.0
_PAGE = 5000
_CONNECTIONS = 8
_CONNECT_SECONDS = 10
_SETTINGS: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, "application_name": "beliefrag"}
_Ranking = tuple[sql.Composable, sql.Composable, sql.Composable]
"""What a search is made of: the score, the condition and the order."""

TableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$")]


@dataclass(frozen=True, slots=True)
class PostgresOptions(EngineOptions):
    """The options of search on PostgreSQL. User and password come from PGUSER and PGPASSWORD, or a password file."""

    table: TableName = "passages"

    @property
    def names(self) -> tuple[sql.Identifier, sql.Identifier, sql.Identifier]:
        """The names of the table, of its state and of its BM25 index."""
        *schema, table = self.table.split(".")
        table_name, state, index = (sql.Identifier(*schema, f"{table}{end}") for end in ("", "_state", "_bm25"))
        return table_name, state, index


class _Connection(psycopg.Connection[Row]):
    """A connection on which no request waits longer than some seconds, even if the network swallows the reply."""

    seconds = 30.0

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for a reply."""
        try:
            return super().wait(gen, interval, self.seconds if timeout is None else timeout)
        except errors._WaitTimeout:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the server did not reply within {self.seconds:g} seconds") from None


def _connect(url: str, *, seconds: float) -> _Connection:
    """Open a connection whose requests may take some seconds."""
    connection = _Connection.connect(url, autocommit=True, **_SETTINGS)
    connection.seconds = seconds
    return connection


def _open_pool(options: PostgresOptions) -> ConnectionPool[_Connection]:
    """Open a pool of connections that only read, in transactions that see one state of the database."""
    seconds = options.timeout
    # The error of a first connection names the reason in the server's words; that of the pool does not.
    _connect(options.url, seconds=seconds).close()

    def configure(connection: _Connection) -> None:
        connection.seconds = seconds
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    limits = f"-c statement_timeout={int(seconds * 1000)} -c enable_seqscan=off -c default_transaction_read_only=on"
    return ConnectionPool(
        options.url,
        connection_class=_Connection,
        kwargs={"autocommit": True, "options": limits, "prepare_threshold": None, **_SETTINGS},
        configure=configure,
        check=ConnectionPool.check_connection,
        min_size=0,
        max_size=_CONNECTIONS,
        timeout=min(seconds, _CONNECT_SECONDS),
        open=True,
    )


@contextmanager
def _explain_errors(what: str) -> Iterator[None]:
    """Turn errors of the client library into ours; `what` was being done."""
    try:
        yield
    except BeliefRAGError:
        raise
    except psycopg.Error as problem:
        reason, remedy = one_line(problem), "Check the table and its columns."
        if isinstance(problem, errors.QueryCanceled):
            reason, remedy = f"it was not done in time ({reason})", "Raise timeout=SECONDS."
        elif isinstance(problem, psycopg.OperationalError):
            remedy = "Check that the server runs; user and password are read from PGUSER and PGPASSWORD."
        raise RetrievalError(f"{what} failed: {reason}.", remedy=remedy) from problem


class PostgresTable:
    """A table with a BM25 index, opened to be searched."""

    def __init__(self, options: PostgresOptions) -> None:
        check_address(options.url, schemes=("postgresql", "postgres"), variable="PGPASSWORD")
        self._options = options
        self._table, self._state, _ = options.names
        self._limit: tuple[sql.Composable, Mapping[str, Any]] | None = None
        with self._explain():
            self._pool = _open_pool(options)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _explain(self) -> AbstractContextManager[None]:
        return _explain_errors(f"The search in {self._options.table}")

    def _run_together(self, *requests: tuple[Statement, Values]) -> list[list[Row]]:
        """Make requests that see the same state of the database, in one round trip."""
        with (
            self._explain(),
            self._pool.connection() as connection,
            connection.pipeline(),
            connection.transaction(),
        ):
            cursors = [connection.execute(statement, values) for statement, values in requests]
            return [cursor.fetchall() for cursor in cursors]

    def _rows(self, statement: Statement, values: Values = ()) -> list[Row]:
        return self._run_together((statement, values))[0]

    def _open(self) -> None:
        [(server, exists)] = self._rows(
            "SELECT current_setting('server_version'), to_regclass(%s) IS NOT NULL", (self._options.table,)
        )
        extensions = self._rows(
            "SELECT e.extname, e.extversion, i.indexrelid::regclass::text, c.reloptions "
            "FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam "
            "JOIN pg_depend d ON d.objid = a.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid "
            "WHERE i.indrelid = to_regclass(%s) AND i.indisvalid AND a.amname = 'bm25' ORDER BY 3 LIMIT 1",
            (self._options.table,),
        )
        if not exists:
            raise self._unusable("does not exist", "Make it with `beliefrag index ... --to`, or check the name.")
        if not extensions:
            raise self._unusable(
                "has no BM25 index of pg_search or pg_textsearch",
                "Run `beliefrag index` on it again to finish it, or make an index with CREATE INDEX ... USING bm25.",
            )
        [(self._extension, version, self._index, settings)] = extensions
        engine = f"PostgreSQL {server.split()[0]}, {self._extension} {version}"
        self.description = EngineDescription(engine, self._options.table)
        if self._options.is_own:
            self._query = self._own_query(dict(each.split("=", 1) for each in settings or []))
            return
        self.read_state()
        self.identity = Bm25Index.identity
        self._query = self._our_query()
        self._columns: sql.Composable = sql.SQL(
            "id, title, substr(content, char_length(title) + 2), coalesce(sources[1], ''), metadata"
        )
        self._id = sql.Identifier("id")

    def _unusable(self, problem: str, remedy: str) -> CorpusError:
        return CorpusError(f"The table {self._options.table} {problem}.", remedy=remedy)

    def _textsearch_query(self, column: str, words: LiteralString) -> _Ranking:
        rank = sql.SQL("{} <@> to_bm25query(" + words + "::text, {})").format(
            sql.Identifier(column), sql.Literal(self._index)
        )
        return sql.SQL("-({})").format(rank), sql.SQL(""), rank

    def _our_query(self) -> _Ranking:
        if self._extension == _PG_TEXTSEARCH:
            return self._textsearch_query("terms", "%(line)s")
        where = sql.SQL("WHERE content @@@ pdb.match_disjunction(%(terms)s::text[])")
        return sql.SQL("pdb.score(id)"), where, sql.SQL("score DESC, id")

    def _own_query(self, settings: Mapping[str, str]) -> _Ranking:
        options = self._options
        key = settings.get("key_field", "").strip("'\"")
        if not (options.id or key):
            raise SettingsError("The column with the ids is not named.", remedy="Give id=COLUMN.")
        self._id = sql.Identifier(options.id or key)
        named = [
            sql.SQL("coalesce({}::text, '')").format(sql.Identifier(each)) if each else sql.SQL("''")
            for each in (options.title, options.text, options.source)
        ]
        self._columns = sql.SQL(", ").join([sql.SQL("{}::text").format(self._id), *named])
        if self._extension == _PG_TEXTSEARCH:
            self.identity = f"bm25 {_PG_TEXTSEARCH} {' '.join(f'{k}={v}' for k, v in sorted(settings.items()))}"
            return self._textsearch_query(options.text, "%(words)s")
        fields = self._rows(
            "SELECT name, tokenizer FROM paradedb.schema(%s) WHERE tokenizer IS NOT NULL", (self._index,)
        )
        searched = [(name, how) for name, how in fields if name in (options.text, options.title)]
        if options.text not in dict(searched):
            raise self._unusable(f"has no BM25 index on the column {options.text}", "Name a column that it has.")
        self.identity = f"bm25 k1=1.2 b=0.75 {_PG_SEARCH} {' '.join(f'{name}:{how}' for name, how in sorted(searched))}"
        match = sql.SQL("{} @@@ pdb.match_disjunction(%(words)s::text)")
        where = sql.SQL(" OR ").join(match.format(sql.Identifier(name)) for name, _ in searched)
        score = sql.SQL("pdb.score({})").format(sql.Identifier(key))
        return score, sql.SQL("WHERE {}").format(where), sql.SQL("score DESC, {}").format(self._id)

    def where(self, wanted: Filter) -> PostgresTable:
        """Return the same table, of which searches find the passages that a filter describes."""
        check_filterable(self._options)
        values: dict[str, Any] = dict(self._limit[1]) if self._limit else {}
        condition = self._condition(wanted, values)
        if self._limit:
            condition = sql.SQL("({} AND {})").format(self._limit[0], condition)
        view = copy.copy(self)
        view._limit = (condition, values)
        return view

    def _condition(self, wanted: Filter, values: dict[str, Any]) -> sql.Composable:
        """Return a filter as a condition; the values that it compares with are parameters, put into `values`."""
        match wanted:
            case Both() | Either():
                parts = [self._condition(part, values) for part in wanted.parts]
                return sql.SQL("({})").format(sql.SQL(" AND " if isinstance(wanted, Both) else " OR ").join(parts))
            case Not():
                return sql.SQL("NOT {}").format(self._condition(wanted.part, values))
        column = sql.Identifier("sources" if wanted.name in (PATH, FILE) else "metadata")
        prefix = "" if wanted.name in (PATH, FILE) else f"{wanted.name}="
        statement = sql.SQL("SELECT DISTINCT held FROM {}, unnest({}) AS held WHERE starts_with(held, %s)")
        held = (
            str(row[0]).removeprefix(prefix) for row in self._rows(statement.format(self._table, column), (prefix,))
        )
        name = f"limit{len(values)}"
        values[name] = [f"{prefix}{value}" for value in matching_values(wanted, held)]
        return sql.SQL("({} && {}::text[])").format(column, sql.Placeholder(name))

    def limited_ids(self) -> list[str]:
        """Return the ids of the passages that searches are limited to."""
        condition, values = self._limit or (sql.SQL("true"), {})
        return [
            row[0] for row in self._rows(sql.SQL("SELECT id FROM {} WHERE {}").format(self._table, condition), values)
        ]

    def _find(self, columns: sql.Composable, query: str, limit: int) -> tuple[list[Row], IndexState]:
        """Return rows that end with a score, and the state of the table in the same snapshot, in one round trip."""
        score, where, order = self._query
        limited: Mapping[str, Any] = {}
        source: sql.Composable = sql.SQL("{} {}").format(self._table, where)
        if self._limit:
            condition, limited = self._limit
            if self._extension == _PG_SEARCH:
                # It would count a score once for each condition beside its own.
                found = sql.SQL("SELECT id AS found_id, {} AS found_score FROM {}").format(score, source)
                source, score = (
                    sql.SQL("({} OFFSET 0) AS found JOIN {} ON id = found_id").format(found, self._table),
                    sql.SQL("found_score"),
                )
            source = sql.SQL("{} WHERE {}").format(source, condition)
        statement = sql.SQL("SELECT {}, {} AS score FROM {} ORDER BY {} LIMIT %(limit)s").format(
            columns, score, source, order
        )
        terms = query_terms(query)
        values = {"terms": terms, "line": " ".join(terms), "words": " ".join(query_words(query)), "limit": limit}
        values |= limited
        state, rows = self._run_together((self._state_query(), {}), (statement, values))
        return [row for row in rows if row[-1] > 0], self._read_state(state)

    def find(self, query: str, limit: int) -> tuple[list[tuple[Passage, float]], IndexState]:
        """Return the best passages and the state of the table."""
        rows, state = self._find(self._columns, query, limit)
        return [(_passage(row[:-1]), float(row[-1])) for row in rows], state

    def find_ids(self, query: str, limit: int) -> tuple[list[tuple[str, float]], IndexState]:
        """Return ids and scores of the best passages, and the state of the table."""
        rows, state = self._find(sql.SQL("{}::text").format(self._id), query, limit)
        return [(str(row[0]), float(row[1])) for row in rows], state

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Return the passages with these ids that the table holds, in one lookup."""
        statement = sql.SQL("SELECT {} FROM {} WHERE {}::text = ANY(%s)").format(self._columns, self._table, self._id)
        return {str(row[0]): _passage(row) for row in self._rows(statement, (list(ids),))}

    def first(self, count: int) -> list[Passage]:
        """Return the first passages by id, in the order of the bytes."""
        statement = sql.SQL('SELECT {} FROM {} ORDER BY {}::text COLLATE "C" LIMIT %s')
        rows = self._rows(statement.format(self._columns, self._table, self._id), (count,))
        return [_passage(row) for row in rows]

    def read_passages(self) -> Iterator[list[Passage]]:
        """Yield all passages of one snapshot, some thousand at a time."""
        with (
            self._explain(),
            self._pool.connection() as connection,
            connection.transaction(),
            connection.cursor(name="beliefrag_pages") as cursor,
        ):
            cursor.execute(sql.SQL("SELECT {} FROM {}").format(self._columns, self._table))
            while rows := cursor.fetchmany(_PAGE):
                yield [_passage(row) for row in rows]

    def read_state(self) -> IndexState:
        """Return the current state of the table."""
        rows = self._rows(self._state_query())
        if self._options.is_own:
            self._own_changes, self._own_state = int(rows[0][0]), self._measure_own_table()
        return self._read_state(rows)

    def _measure_own_table(self) -> IndexState:
        if self._options.changes == "follow":
            return IndexState(0, "not taken, because changes are followed")
        statement = sql.SQL(
            "SELECT count(*), coalesce(sum(('x' || left(md5(concat_ws(chr(31), {})), 16))::bit(64)::bigint), 0) FROM {}"
        )
        [(count, total)] = self._rows(statement.format(self._columns, self._table))
        return IndexState(count, CorpusState.from_sum(count, int(total)).fingerprint)

    def _state_query(self) -> sql.Composed:
        if not self._options.is_own:
            return sql.SQL("SELECT format, passages, total FROM {}").format(self._state)
        # The server counts what was changed; the count comes about a second after the change.
        return sql.SQL(
            "SELECT pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid) + "
            "pg_stat_get_tuples_deleted(oid) FROM pg_class WHERE oid = to_regclass({})"
        ).format(sql.Literal(self._options.table))

    def _read_state(self, rows: Sequence[Row]) -> IndexState:
        if self._options.is_own:
            changes = int(rows[0][0]) - self._own_changes
            if not changes or self._options.changes == "follow":
                return self._own_state
            return IndexState(self._own_state.passages, f"{self._own_state.fingerprint} and {changes} changed rows")
        if not rows or rows[0][0] != _FORMAT:
            raise self._unusable("is of another version", "Make it again with `beliefrag index ... --to`.")
        state = CorpusState(int(rows[0][1]), int(rows[0][2], 16))
        return IndexState(state.passages, state.fingerprint)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close(timeout=1)


class PostgresWriter:
    """A table that is open to be filled; it is made if it does not exist.

    All changes of a run are one transaction: until it ends, and after a kill, searches see what the table held before.
    The BM25 index is made after the passages of the first run, which is faster than growing it.
    """

    def __init__(self, options: PostgresOptions) -> None:
        check_address(options.url, schemes=("postgresql", "postgres"), variable="PGPASSWORD")
        options.check_fillable()
        self._options = options
        self._table, self._state, self._index = options.names
        with self.explain_errors():
            self._connection = _connect(options.url, seconds=max(60.0, options.timeout))
            try:
                self._take_lock()
                with self._connection.transaction():
                    self._extension = self._find_extension()
                    self._make_tables()
                self._connection.set_autocommit(False)
            except BaseException:
                self.close()
                raise

    def explain_errors(self) -> AbstractContextManager[None]:
        """Turn errors of the client library into ours."""
        return _explain_errors(f"Filling the table {self._options.table}")

    def _take_lock(self) -> None:
        name = f"beliefrag {self._options.table}"
        [(locked,)] = self._execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", values=(name,))
        if not locked:
            raise IndexBusy(
                f"The table {self._options.table} is being written by another process.",
                remedy="Wait until that one has finished, or write to another table.",
            )

    def _find_extension(self) -> str:
        names = {row[0] for row in self._execute("SELECT extname FROM pg_extension")}
        if found := next((each for each in (_PG_SEARCH, _PG_TEXTSEARCH) if each in names), None):
            return found
        raise CorpusError(
            "This database has neither of the extensions pg_search and pg_textsearch.",
            remedy=f"Install one on the server, and let an administrator run CREATE EXTENSION {_PG_SEARCH} (or "
            f"{_PG_TEXTSEARCH}) in this database.",
        )

    def _make_tables(self) -> None:
        names = [each.as_string(self._connection) for each in (self._table, self._state)]
        [found] = self._execute("SELECT to_regclass(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL", values=names)
        if all(found):
            if self._execute("SELECT format FROM {}", self._state) != [(_FORMAT,)]:
                what = f"The table {self._options.table} was made by another version of BeliefRAG."
                raise CorpusError(what, remedy="Drop it and its NAME_state, or name another table.")
            return
        if any(found):
            what = f"The table {self._options.table} was not made by BeliefRAG."
            raise CorpusError(what, remedy="Name another table to fill.")
        terms = sql.SQL(", terms text NOT NULL" if self._extension == _PG_TEXTSEARCH else "")
        self._execute(
            "CREATE TABLE {} (id text PRIMARY KEY, title text NOT NULL, content text NOT NULL, "
            "sources text[] NOT NULL, digest bytea NOT NULL, metadata text[] NOT NULL{})",
            self._table,
            terms,
        )
        self._execute(
            "CREATE TABLE {} "
            "(format int NOT NULL, passages bigint NOT NULL, total text NOT NULL, dead bigint NOT NULL)",
            self._state,
        )
        self._execute("INSERT INTO {} VALUES ({}, 0, '0', 0)", self._state, sql.Literal(_FORMAT))

    def _execute(self, statement: LiteralString, *names: sql.Composable, values: Sequence[Any] = ()) -> list[Row]:
        cursor = self._connection.execute(sql.SQL(statement).format(*names), values)
        return cursor.fetchall() if cursor.description else []

    def find(self, ids: Sequence[str]) -> Mapping[str, Held]:
        """Return what the table holds under these ids."""
        rows = self._execute(
            "SELECT id, digest, sources, metadata FROM {} WHERE id = ANY(%s)", self._table, values=(list(ids),)
        )
        return {row[0]: _held(row) for row in rows}

    def write(self, changes: Changes) -> None:
        """Write some changes, as a part of the transaction."""
        if changes.removed:
            self._execute("DELETE FROM {} WHERE id = ANY(%s)", self._table, values=(changes.removed,))
        with self._connection.cursor() as cursor:
            update = sql.SQL("UPDATE {} SET sources = %s WHERE id = %s").format(self._table)
            cursor.executemany(update, [(list(sources), name) for name, sources in changes.sources.items()])
        if not changes.puts:
            return
        staging = sql.Identifier("beliefrag_staging")
        self._execute("CREATE TEMP TABLE IF NOT EXISTS {} (LIKE {}) ON COMMIT DROP", staging, self._table)
        names = ["id", "title", "content", "sources", "digest", "metadata"]
        names += ["terms"] if self._extension == _PG_TEXTSEARCH else []
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(staging, columns)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for passage, held in changes.puts:
                content = content_of(passage)
                row = [passage.id, passage.title, content, list(held.sources), held.digest.to_bytes(32)]
                row.append(list(held.metadata))
                copy.write_row([*row, " ".join(passage_terms(passage))][: len(names)])
        # An update of other columns than the indexed ones would stay in place, and pg_textsearch lose the row.
        self._execute("DELETE FROM {} WHERE id IN (SELECT id FROM {})", self._table, staging)
        self._execute("INSERT INTO {} ({}) SELECT {} FROM {}", self._table, columns, columns, staging)
        self._execute("TRUNCATE {}", staging)

    def read_all(self) -> Iterator[tuple[str, Held]]:
        """Yield what the table holds."""
        statement, last = "SELECT id, digest, sources, metadata FROM {} WHERE id > %s ORDER BY id LIMIT %s", ""
        while rows := self._execute(statement, self._table, values=(last, _PAGE)):
            for row in rows:
                yield row[0], _held(row)
            last = rows[-1][0]

    def finish(self, state: CorpusState, dead: int) -> None:
        """Commit, and make the BM25 index; make it again if deleted passages, which extensions count, distort it."""
        [(dead,)] = self._execute(
            "UPDATE {} SET passages = %s, total = %s, dead = dead + %s RETURNING dead",
            self._state,
            values=(state.passages, f"{state.total:x}", dead),
        )
        self._connection.commit()
        self._connection.set_autocommit(True)
        self._connection.seconds = _BUILD_SECONDS
        # A new index is named without the schema: it is that of the table.
        name = sql.Identifier(self._options.table.rpartition(".")[2] + "_bm25")
        if self._extension == _PG_SEARCH:
            self._execute(
                "CREATE INDEX IF NOT EXISTS {} ON {} USING bm25 "
                "(id, (content::pdb.simple('stemmer=english', 'remove_long=40'))) WITH (key_field = 'id')",
                *(name, self._table),
            )
        else:
            self._execute(
                "CREATE INDEX IF NOT EXISTS {} ON {} USING bm25 (terms) "
                "WITH (text_config = 'pg_catalog.simple', k1 = 1.2, b = 0.75)",
                *(name, self._table),
            )
        self._execute("ANALYZE {}", self._table)
        if dead and (state.passages <= QUICKLY_REWRITTEN or 10 * dead > state.passages):
            self._execute("VACUUM {}", self._table)
            self._execute("REINDEX INDEX {}", self._index)
            self._execute("UPDATE {} SET dead = 0", self._state)

    def close(self) -> None:
        """Undo what is not committed, and let another writer in."""
        with suppress(psycopg.Error):
            self._connection.rollback()
            # A server notices a closed connection a little later, and would keep the next writer out until then.
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()


def _held(row: Row) -> Held:
    return Held(int.from_bytes(row[1]), tuple(row[2]), tuple(row[3]))


def _passage(row: Row) -> Passage:
    """Return the passage in the columns id, title, text and source, and metadata in a table of ours."""
    name, title, text, source = map(str, row[:4])
    return Passage(name, title, text, source, metadata=read_metadata(row[4]) if len(row) > 4 else ())


@RETRIEVERS.register(
    "postgres",
    title="PostgreSQL",
    summary="Searches a table of PostgreSQL by BM25, with pg_search or pg_textsearch.",
    options=PostgresOptions,
)
def _open_postgres(options: PostgresOptions, source: PassageSource) -> Retriever:
    return open_on_engine(options, source, PostgresTable(options))
