"""HoloBench CSV (Maekawa et al., 2025): questions about sets of database rows, each row written as a passage.

The form, as read from the dataset card and the loader of the published code: `query/DB.csv` with the columns
`question`, `query` (SQL), `db_id`, `difficulty`, `query_type`; and `DB/TABLE.csv` with `verbalized_text` and
`table_row` (the row as a JSON object). Gold answers are not published: they are the results of the SQL. Here it runs on
all rows with SQLite; the published code runs it with DuckDB on the rows that fit its context window.

The query comes from a file, so it runs in a database in memory that can only read: no other statement, no file, no
extension, and a limit on the work.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import Json

from beliefrag.bench.datasets.formats import (
    BadRecord,
    DatasetEntry,
    PublishedRecord,
    RawRecord,
    make_passage,
    make_question,
    name_without_gz,
    read_each,
    read_table,
    register_described,
)
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage

_ANSWER_ROWS = 200

_Tables = Mapping[str, Sequence[tuple[Passage, dict[str, Any]]]]
"""The rows of each table of a database, each with its passage."""


class _RowRecord(PublishedRecord):
    table_row: Json[dict[str, Any]]
    verbalized_text: str


class _QueryRecord(PublishedRecord):
    question: str
    query: str
    db_id: Any = None


def _read(files: Sequence[Path]) -> Iterator[DatasetEntry]:
    paths = [found for path in files for found in (sorted(path.rglob("*.csv*")) if path.is_dir() else [path])]
    queries: dict[str, list[RawRecord]] = defaultdict(list)
    rows: dict[str, dict[str, list[tuple[Passage, dict[str, Any]]]]] = defaultdict(dict)
    for path in paths:
        # The folder of a table is its database; the file is the table.
        database, table = path.parent.name, name_without_gz(path).removesuffix(".csv")
        own: list[RawRecord] = []
        for record in read_table(path, delimiter=","):
            is_query = "query" in record.data and "question" in record.data
            (queries[str(record.data.get("db_id"))] if is_query else own).append(record)
        for row in read_each(own, _RowRecord, lambda each: each):
            passage = make_passage(f"{database} {table}", row.verbalized_text)
            rows[database].setdefault(table, []).append((passage, row.table_row))
    lacking = sorted(queries.keys() - rows.keys())
    if lacking or not queries:
        missing = f"rows of {lacking[0]} (DB/TABLE.csv)" if lacking else "queries (query/DB.csv)"
        raise DataError(f"The files given hold no {missing}.", remedy="Give the folder of the dataset repository.")
    for database, records in queries.items():
        yield from _read_questions(database, records, rows[database])


def _read_questions(database: str, records: Sequence[RawRecord], tables: _Tables) -> Iterator[DatasetEntry]:
    passages = {table: [passage for passage, _ in pairs] for table, pairs in tables.items()}
    # The rows belong to the database, not to a question: they come with its first one.
    everything = tuple({passage.id: passage for table in passages.values() for passage in table}.values())
    numbers = itertools.count(1)
    with closing(RowDatabase({table: [row for _, row in pairs] for table, pairs in tables.items()})) as engine:

        def make(record: _QueryRecord) -> DatasetEntry:
            number = next(numbers)
            question = _make_question(f"{database}_{number}", engine, passages, record)
            return DatasetEntry(question, everything if number == 1 else ())

        yield from read_each(records, _QueryRecord, make)


def _make_question(
    identifier: str, engine: RowDatabase, passages: Mapping[str, Sequence[Passage]], record: _QueryRecord
) -> LabelledQuestion:
    answer = row_texts(engine.answer(record.query))
    ranged = engine.list_rows_in_range(record.query)
    supporting = None if ranged is None else [passages[table][number].id for table, number in sorted(ranged)]
    labels = {"db": record.db_id, "sql": record.query, "n_answer_rows": len(answer)}
    return make_question(
        identifier,
        record.question,
        answer[:_ANSWER_ROWS],
        supporting or None,
        is_set=True,
        labels=labels | record.labels("difficulty", "query_type"),
    )


register_described({"holobench": _read})

_READ_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_STEPS = 1_000
_MAX_STEPS = 200_000
"""Times `_STEPS` machine steps: far more than any published query needs, some seconds at most."""

_STRINGS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_NESTED = re.compile(r"\b(UNION|INTERSECT|EXCEPT)\b|\bSELECT\b(?=.*\bSELECT\b)", re.IGNORECASE | re.DOTALL)
_RANGE = re.compile(
    r"\bFROM\b(?P<range>.*?)(?=\bGROUP\s+BY\b|\bHAVING\b|\bORDER\s+BY\b|\bLIMIT\b|;|$)", re.IGNORECASE | re.DOTALL
)
_WORD = r"(?!(?:ON|USING|WHERE|INNER|LEFT|RIGHT|FULL|OUTER|CROSS|NATURAL|JOIN|AS)\b)[A-Za-z_]\w*"
_TABLES = re.compile(rf"(?:^|\bJOIN\b|,)\s*({_WORD})(?:\s+(?:AS\s+)?({_WORD}))?", re.IGNORECASE)


class RowDatabase:
    """Tables of rows in memory. A row's number is its place in the list."""

    def __init__(self, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._tables = {name.lower(): name for name in tables}
        self._connection = sqlite3.connect(":memory:")
        for name, rows in tables.items():
            self._fill(name, rows)
        self._connection.execute("PRAGMA case_sensitive_like = ON")
        self._connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _READ_ACTIONS else sqlite3.SQLITE_DENY
        )

    def close(self) -> None:
        """Free the memory."""
        self._connection.close()

    def answer(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows that the query gives."""
        steps = iter(range(_MAX_STEPS))
        self._connection.set_progress_handler(lambda: next(steps, None) is None, _STEPS)
        try:
            with closing(self._connection.execute(query)) as cursor:
                return cursor.fetchall()
        except sqlite3.Error as error:
            raise BadRecord(f"has a query that cannot be run: {error}") from None
        finally:
            self._connection.set_progress_handler(None, 0)

    def list_rows_in_range(self, query: str) -> set[tuple[str, int]] | None:
        """Return table and number of every row that the query reads before it groups, sorts or cuts.

        None where the query's form does not show that: nested queries and set operations.
        """
        # Words within strings are not keywords; positions stay.
        bare = _STRINGS.sub(lambda found: "'" + " " * (len(found[0]) - 2) + "'", query)
        matched = None if _NESTED.search(bare) else _RANGE.search(bare)
        if matched is None:
            return None
        before_where = re.split(r"\bWHERE\b", matched["range"], maxsplit=1, flags=re.IGNORECASE)[0]
        named = [(table, alias or table) for table, alias in _TABLES.findall(before_where)]
        if not named or any(table.lower() not in self._tables for table, _ in named):
            return None
        range_ = query[matched.start("range") : matched.end("range")]
        rows: set[tuple[str, int]] = set()
        for table, alias in named:
            # Nothing in the names is free text: both matched a word.
            numbers = self.answer(f"SELECT DISTINCT {alias}.rowid FROM {range_}")  # noqa: S608
            rows |= {(self._tables[table.lower()], number - 1) for (number,) in numbers if number is not None}
        return rows

    def _fill(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        columns = list(dict.fromkeys(column for row in rows for column in row))
        if not columns:
            return
        names = ", ".join(_quote_name(column) for column in columns)
        self._connection.execute(f"CREATE TABLE {_quote_name(name)} ({names})")
        marks = ", ".join("?" * len(columns))
        self._connection.executemany(
            f"INSERT INTO {_quote_name(name)} VALUES ({marks})",  # noqa: S608
            ([_to_column_value(row.get(column)) for column in columns] for row in rows),
        )


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def _to_column_value(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else str(value)


def row_texts(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return each row as text, its columns joined with " | "."""
    return [" | ".join(_text(value) for value in row) for row in rows]


def _text(value: Any) -> str:
    if value is None:
        return ""
    # A sum of prices ends in ...0000005 or not by the order of its terms.
    return str(round(value, 6) if isinstance(value, float) else value)
