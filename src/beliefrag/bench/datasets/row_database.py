"""Answers a published SQL query over rows, and tells which rows it ranges over.

The query comes from a file, so it runs in a database in memory that can do nothing but read: no other statement, no
file, no extension, and a limit on the work.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from beliefrag.bench.datasets.entry import BadRecord

__all__ = ["RowDatabase", "row_texts"]

_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_STEPS = 1_000
_MOST_STEPS = 200_000
"""Times `_STEPS` machine steps: far more than any published query needs, some seconds at most."""

_STRINGS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_NESTED = re.compile(r"\b(UNION|INTERSECT|EXCEPT)\b|\bSELECT\b(?=.*\bSELECT\b)", re.IGNORECASE | re.DOTALL)
_RANGE = re.compile(
    r"\bFROM\b(?P<range>.*?)(?=\bGROUP\s+BY\b|\bHAVING\b|\bORDER\s+BY\b|\bLIMIT\b|;|$)", re.IGNORECASE | re.DOTALL
)
_WORD = r"(?!(?:ON|USING|WHERE|INNER|LEFT|RIGHT|FULL|OUTER|CROSS|NATURAL|JOIN|AS)\b)[A-Za-z_]\w*"
_TABLES = re.compile(rf"(?:^|\bJOIN\b|,)\s*({_WORD})(?:\s+(?:AS\s+)?({_WORD}))?", re.IGNORECASE)


class RowDatabase:
    """Tables of rows in memory.

    Args:
        tables: The rows of each table. A row's number is its place in the list.
    """

    def __init__(self, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._tables = {name.lower(): name for name in tables}
        self._connection = sqlite3.connect(":memory:")
        for name, rows in tables.items():
            self._fill(name, rows)
        self._connection.execute("PRAGMA case_sensitive_like = ON")
        self._connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
        )

    def close(self) -> None:
        """Frees the memory."""
        self._connection.close()

    def answer(self, query: str) -> list[tuple[Any, ...]]:
        """The rows that the query gives.

        Raises:
            BadRecord: The query cannot be run here.
        """
        return self._run(query)

    def ranged_over(self, query: str) -> set[tuple[str, int]] | None:
        """Table and number of every row that the query reads before it groups, sorts or cuts.

        None where that cannot be told from the query's form: nested queries and set operations.
        """
        # Strings are blanked, so that a word within one is not taken for a keyword; positions stay.
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
            numbers = self._run(f"SELECT DISTINCT {alias}.rowid FROM {range_}")  # noqa: S608
            rows |= {(self._tables[table.lower()], number - 1) for (number,) in numbers if number is not None}
        return rows

    def _fill(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        columns = list(dict.fromkeys(column for row in rows for column in row))
        if not columns:
            return
        names = ", ".join(_quoted(column) for column in columns)
        self._connection.execute(f"CREATE TABLE {_quoted(name)} ({names})")
        marks = ", ".join("?" * len(columns))
        self._connection.executemany(
            f"INSERT INTO {_quoted(name)} VALUES ({marks})",  # noqa: S608
            ([_storable(row.get(column)) for column in columns] for row in rows),
        )

    def _run(self, query: str) -> list[tuple[Any, ...]]:
        steps = iter(range(_MOST_STEPS))
        self._connection.set_progress_handler(lambda: next(steps, None) is None, _STEPS)
        try:
            with closing(self._connection.execute(query)) as cursor:
                return cursor.fetchall()
        except sqlite3.Error as error:
            raise BadRecord(f"has a query that cannot be run: {error}") from None
        finally:
            self._connection.set_progress_handler(None, 0)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def _storable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else str(value)


def row_texts(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Each row as text, its columns joined with " | "."""
    return [" | ".join(_text(value) for value in row) for row in rows]


def _text(value: Any) -> str:
    if value is None:
        return ""
    # A sum of prices ends in ...0000005 or not by the order of its terms; nobody would answer so.
    return str(round(value, 6) if isinstance(value, float) else value)
