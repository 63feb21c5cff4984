"""PostgreSQL as a search engine, with ParadeDB's pg_search or with pg_textsearch, whichever the server has.

A table that `beliefrag index --to postgres:...` made has the terms of the embedded engine, and so its ranking: repeated
words of a question count once, as they do there. A table of the user's own is searched through the BM25 index that it
has, with the words that this index makes of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, LiteralString

from beliefrag.errors import CorpusError, SettingsError, explain_missing_extra
from beliefrag.retrieval.bm25 import query_terms, query_words
from beliefrag.retrieval.engines.engine import EngineDescription, IndexState, check_address, ranking_name
from beliefrag.retrieval.engines.engine_retriever import CHANGES
from beliefrag.retrieval.engines.open_engine import open_on_engine
from beliefrag.retrieval.protocol import RETRIEVERS, Retriever
from beliefrag.retrieval.store import CorpusState
from beliefrag.types import Passage

with explain_missing_extra("Search on PostgreSQL", "postgres"):
    from psycopg import sql

    from beliefrag.retrieval.engines.postgres_connection import Connections, Row, explain_postgres_errors

if TYPE_CHECKING:
    from beliefrag.retrieval.engines.filling import BatchSession
    from beliefrag.retrieval.protocol import PassageSource

__all__ = ["FORMAT", "PG_SEARCH", "PG_TEXTSEARCH", "PostgresOptions", "PostgresTable", "find_extension", "table_names"]

PG_SEARCH = "pg_search"
PG_TEXTSEARCH = "pg_textsearch"
FORMAT = 1
_PAGE = 5000
_Ranking = tuple[sql.Composable, sql.Composable, sql.Composable]
"""What a search is made of: the score, the condition and the order."""
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The options of search on PostgreSQL. User and password come from PGUSER and PGPASSWORD, or a password file."""

    url: str = ""
    """The address, as postgresql://HOST:PORT/DATABASE."""
    table: str = "passages"
    """The table, with its schema where that is not the default one."""
    id: str = ""
    """In a table of your own: the column with the id."""
    title: str = ""
    """In a table of your own: the column with the title, if there is one."""
    text: str = ""
    """In a table of your own: the column with the text. Without it, the table is one that `beliefrag index` made."""
    source: str = ""
    """In a table of your own: the column that says where a passage comes from, if there is one."""
    k1: float = 1.2
    b: float = 0.75
    """k1 and b of BM25, for a new table; pg_search has no other than 1.2 and 0.75."""
    timeout: float = 30.0
    """How many seconds a search may take."""
    connections: int = 8
    """How many connections are kept at most."""
    changes: str = "refuse"
    """What to do when the table changes while it is searched: refuse, or follow."""
    fill: bool = False
    """Put the passages that are given into a table of their own, named after the table and their fingerprint."""
    linked: bool = False
    """Follow names between passages, as the retriever `linked` does."""

    def __post_init__(self) -> None:
        if self.changes not in CHANGES:
            raise ValueError(f"changes must be one of {', '.join(CHANGES)}")
        if not _TABLE.fullmatch(self.table):
            raise ValueError("table must be a name of letters, digits and underscores, with or without a schema")
        if self.timeout <= 0 or self.connections < 1:
            raise ValueError("timeout and connections must be above 0")

    @property
    def is_own_table(self) -> bool:
        """Whether the table is the user's own, made by somebody else."""
        return bool(self.text)

    @property
    def identity(self) -> str | None:
        """Names the ranking before anything is opened; None where only the table can tell."""
        return None if self.is_own_table or self.linked else ranking_name(self.k1, self.b)


def table_names(options: PostgresOptions) -> tuple[sql.Identifier, sql.Identifier, sql.Identifier, str]:
    """Gives the names of the table, of its state and of its files, and the bare name of its BM25 index."""
    *schema, table = options.table.split(".")
    names = [sql.Identifier(*schema, f"{table}{suffix}") for suffix in ("", "_state", "_files")]
    return names[0], names[1], names[2], f"{table}_bm25"


def find_extension(rows: Sequence[Row]) -> str | None:
    """Gives the search extension among rows of extension names; pg_search where there are both."""
    names = {row[0] for row in rows}
    return next((each for each in (PG_SEARCH, PG_TEXTSEARCH) if each in names), None)


class PostgresTable:
    """A table with a BM25 index.

    Raises:
        RetrievalError: The server cannot be reached.
        CorpusError: There is no such table, it is not finished, or no BM25 index is on it.
    """

    def __init__(self, options: PostgresOptions) -> None:
        check_address(options.url, schemes=("postgresql", "postgres"), variable="PGPASSWORD")
        self._options = options
        self.seconds = options.timeout
        self._table, self._state, _, _ = table_names(options)
        self._connections = Connections(options.url, seconds=options.timeout, most=options.connections)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with explain_postgres_errors(self._options.table):
            server = self._connections.one("SHOW server_version")[0].split()[0]
            extension = self._connections.one(
                "SELECT e.extname, e.extversion, i.indexrelid::regclass::text, i.indexrelid, c.reloptions "
                "FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam "
                "JOIN pg_depend d ON d.objid = a.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid "
                "WHERE i.indrelid = to_regclass(%s) AND i.indisvalid AND a.amname = 'bm25' ORDER BY 3 LIMIT 1",
                (self._options.table,),
            )
            exists = self._connections.one("SELECT to_regclass(%s) IS NOT NULL", (self._options.table,))[0]
        if not exists:
            raise self._unusable("is not there", "Make it with `beliefrag index ... --to`, or check the name.")
        if not extension:
            raise self._unusable(
                "has no BM25 index of pg_search or pg_textsearch",
                "Run `beliefrag index` on it again to finish it, or make an index with CREATE INDEX ... USING bm25.",
            )
        name, version, self._index, _, settings = extension
        self._extension = str(name)
        self.description = EngineDescription(f"PostgreSQL {server}, {name} {version}", self._options.table)
        given = dict(each.split("=", 1) for each in settings or [])
        if self._options.is_own_table:
            self._query = self._own_query(given)
        else:
            self.read_state()
            k1, b = (float(given.get(each, default)) for each, default in (("k1", 1.2), ("b", 0.75)))
            self.identity = ranking_name(k1, b)
            self._query = self._our_query()
            self._columns: sql.Composable = sql.SQL(
                "id, title, substr(content, char_length(title) + 2), coalesce(sources[1], '')"
            )
            self._id = sql.Identifier("id")

    def _unusable(self, problem: str, remedy: str) -> CorpusError:
        return CorpusError(f"The table {self._options.table} {problem}.", remedy=remedy)

    def _our_query(self) -> _Ranking:
        if self._extension == PG_SEARCH:
            return (
                sql.SQL("pdb.score(id)"),
                sql.SQL("WHERE content @@@ pdb.match_disjunction(%(terms)s::text[])"),
                sql.SQL("score DESC, id"),
            )
        return self._textsearch_query("terms", "%(line)s")

    def _textsearch_query(self, column: str, words: LiteralString) -> _Ranking:
        rank = sql.SQL("{} <@> to_bm25query(" + words + "::text, {})").format(
            sql.Identifier(column), sql.Literal(self._index)
        )
        return sql.SQL("-({})").format(rank), sql.SQL(""), rank

    def _own_query(self, settings: Mapping[str, str]) -> _Ranking:
        options = self._options
        key = settings.get("key_field", "").strip("'\"")
        identifier = options.id or key
        if not identifier:
            raise SettingsError("The column with the ids is not named.", remedy="Give id=COLUMN.")
        self._id = sql.Identifier(identifier)
        text = sql.Identifier(options.text)
        nothing = sql.Composed([sql.SQL("''")])
        title = sql.SQL("coalesce({}, '')").format(sql.Identifier(options.title)) if options.title else nothing
        source = sql.SQL("coalesce({}::text, '')").format(sql.Identifier(options.source)) if options.source else nothing
        self._columns = sql.SQL("{}::text, {}, coalesce({}, ''), {}").format(self._id, title, text, source)
        if self._extension == PG_TEXTSEARCH:
            self.identity = f"bm25 {PG_TEXTSEARCH} {' '.join(f'{k}={v}' for k, v in sorted(settings.items()))}"
            return self._textsearch_query(options.text, "%(words)s")
        with explain_postgres_errors(options.table):
            fields = self._connections.all(
                "SELECT name, tokenizer FROM paradedb.schema(%s) WHERE tokenizer IS NOT NULL", (self._index,)
            )
        searched = [(name, how) for name, how in fields if name in (options.text, options.title)]
        if options.text not in [name for name, _ in searched]:
            raise self._unusable(f"has no BM25 index on the column {options.text}", "Name a column that it has.")
        self.identity = f"bm25 k1=1.2 b=0.75 {PG_SEARCH} {' '.join(f'{name}:{how}' for name, how in sorted(searched))}"
        each = sql.SQL(" OR ").join(
            sql.SQL("{} @@@ pdb.match_disjunction(%(words)s::text)").format(sql.Identifier(name))
            for name, _ in searched
        )
        return (
            sql.SQL("pdb.score({})").format(sql.Identifier(key)),
            sql.SQL("WHERE {}").format(each),
            sql.SQL("score DESC, {}").format(self._id),
        )

    def _select(self, columns: sql.Composable) -> sql.Composed:
        score, where, order = self._query
        return sql.SQL("SELECT {}, {} AS score FROM {} {} ORDER BY {} LIMIT %(limit)s").format(
            columns, score, self._table, where, order
        )

    def _values(self, query: str, limit: int) -> dict[str, Any]:
        terms = query_terms(query)
        return {"terms": terms, "line": " ".join(terms), "words": " ".join(query_words(query)), "limit": limit}

    def find(self, query: str, limit: int) -> tuple[list[tuple[Passage, float]], IndexState]:
        """Gives the best passages and the state of the table in the same snapshot, in one round trip."""
        with explain_postgres_errors(self._options.table):
            state, rows = self._connections.together(
                (self._state_query(), {}), (self._select(self._columns), self._values(query, limit))
            )
        found = [(Passage(*map(str, row[:4])), float(row[4])) for row in rows if row[4] > 0]
        return found, self._read_state(state)

    def find_ids(self, query: str, limit: int) -> tuple[list[tuple[str, float]], IndexState]:
        """Gives ids and scores of the best passages, and the state of the table in the same snapshot."""
        columns = sql.SQL("{}::text").format(self._id)
        with explain_postgres_errors(self._options.table):
            state, rows = self._connections.together(
                (self._state_query(), {}), (self._select(columns), self._values(query, limit))
            )
        return [(str(row[0]), float(row[1])) for row in rows if row[1] > 0], self._read_state(state)

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Gives the passages with these ids that are there, in one lookup."""
        statement = sql.SQL("SELECT {} FROM {} WHERE {}::text = ANY(%s)").format(self._columns, self._table, self._id)
        with explain_postgres_errors(self._options.table):
            rows = self._connections.all(statement, (list(ids),))
        return {str(row[0]): Passage(*map(str, row)) for row in rows}

    def first(self, count: int) -> list[Passage]:
        """Gives the first passages by id, in the order of the bytes, whatever the server's language is."""
        statement = sql.SQL('SELECT {} FROM {} ORDER BY {}::text COLLATE "C" LIMIT %s')
        with explain_postgres_errors(self._options.table):
            rows = self._connections.all(statement.format(self._columns, self._table, self._id), (count,))
        return [Passage(*map(str, row)) for row in rows]

    def read_passages(self) -> Iterator[list[Passage]]:
        """Gives all passages of one snapshot, some thousand at a time."""
        statement = sql.SQL("SELECT {} FROM {}").format(self._columns, self._table)
        with explain_postgres_errors(self._options.table):
            for rows in self._connections.pages(statement, _PAGE):
                yield [Passage(*map(str, row)) for row in rows]

    def read_state(self) -> IndexState:
        """Gives the state of the table as it is now."""
        with explain_postgres_errors(self._options.table):
            rows = self._connections.all(self._state_query())
            if self._options.is_own_table:
                self._own_changes = int(rows[0][0])
                self._own_state = self._measure_own_table()
            return self._read_state(rows)

    def _measure_own_table(self) -> IndexState:
        if self._options.changes == "follow":
            return IndexState(0, "not taken, because changes are followed")
        statement = sql.SQL(
            "SELECT count(*), coalesce(sum(('x' || left(md5(concat_ws(chr(31), {})), 16))::bit(64)::bigint), 0) FROM {}"
        )
        count, total = self._connections.one(statement.format(self._columns, self._table))
        return IndexState(int(count), CorpusState.from_sum(int(count), int(total)).fingerprint)

    def _state_query(self) -> sql.Composed:
        if not self._options.is_own_table:
            return sql.SQL("SELECT format, passages, total FROM {}").format(self._state)
        # The server counts what was changed; the count comes about a second after the change.
        return sql.SQL(
            "SELECT pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid) + "
            "pg_stat_get_tuples_deleted(oid) FROM pg_class WHERE oid = to_regclass({})"
        ).format(sql.Literal(self._options.table))

    def _read_state(self, rows: Sequence[Row]) -> IndexState:
        if self._options.is_own_table:
            changes = int(rows[0][0]) - self._own_changes
            if not changes or self._options.changes == "follow":
                return self._own_state
            return IndexState(self._own_state.passages, f"{self._own_state.fingerprint} and {changes} changed rows")
        if not rows:
            raise self._unusable("has no state", "Make it again with `beliefrag index ... --to`.")
        if rows[0][0] != FORMAT:
            raise self._unusable(f"has format {rows[0][0]}, and this BeliefRAG reads {FORMAT}", "Make it again.")
        state = CorpusState(int(rows[0][1]), int(rows[0][2], 16))
        return IndexState(state.passages, state.fingerprint)

    def close(self) -> None:
        """Lets the connections go."""
        self._connections.close()


@RETRIEVERS.register(
    "postgres",
    title="PostgreSQL",
    summary="Searches a table of PostgreSQL by BM25, with pg_search or pg_textsearch.",
    options=PostgresOptions,
)
def _open_postgres(options: PostgresOptions, source: PassageSource) -> Retriever:
    return open_on_engine(
        options,
        source,
        engine=PostgresTable,
        session=_open_session,
        rename=lambda given, suffix: replace(
            given, table=f"{given.table}_{suffix}", text="", id="", title="", source=""
        ),
        command=lambda given: f"`beliefrag index ... --to postgres:...,table={given.table}`",
    )


def _open_session(options: PostgresOptions) -> BatchSession:
    from beliefrag.retrieval.engines.postgres_filling import PostgresSession  # noqa: PLC0415

    return PostgresSession(options)
