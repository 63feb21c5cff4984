"""HoloBench CSV (Maekawa et al., 2025): questions about sets of database rows, each row verbalised as a passage.

The form, as read from the dataset card and the loader of the published code: `query/DB.csv` with the columns
`question`, `query` (SQL), `db_id`, `difficulty`, `query_type`; and `DB/TABLE.csv` with `verbalized_text` and
`table_row` (the row as a JSON object). Gold answers are not published: they are what the SQL gives. Here it runs on
all rows with SQLite; the published code runs it with DuckDB on the rows that fit its context window.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.entry import BadRecord, Entry, kept, labelled, make_passage, text
from beliefrag.bench.datasets.format import Format, HubFiles
from beliefrag.bench.datasets.records import Problem, Record, plain_name, read_table
from beliefrag.bench.datasets.row_database import RowDatabase, row_texts
from beliefrag.runs.errors import DataError
from beliefrag.types import Passage

__all__ = ["HOLOBENCH"]

_ANSWER_ROWS = 200

_read_csv = partial(read_table, delimiter=",")


def _read(files: Sequence[Path]) -> Iterator[Entry | Problem]:
    paths = [found for path in files for found in (sorted(path.rglob("*.csv*")) if path.is_dir() else [path])]
    queries: list[Record] = []
    rows: dict[str, dict[str, list[tuple[Passage, dict[str, Any]]]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
        table = plain_name(path).removesuffix(".csv")
        for record in _read_csv(path):
            if isinstance(record, Problem):
                yield record
            elif "query" in record.data and "question" in record.data:
                queries.append(record)
            else:
                try:
                    # The folder of a table is its database; the file is the table.
                    rows[path.parent.name][table].append(_row(record.data, path.parent.name, table))
                except BadRecord as error:
                    yield Problem(record.place, str(error))
    if not queries or not rows:
        missing = "queries (query/DB.csv)" if not queries else "rows (DB/TABLE.csv)"
        raise DataError(
            f"There are no {missing} among the files given.", remedy="Give the folder of the dataset repository."
        )
    yield from _entries(queries, rows)


def _entries(
    queries: Sequence[Record], rows: Mapping[str, Mapping[str, Sequence[tuple[Passage, dict[str, Any]]]]]
) -> Iterator[Entry | Problem]:
    by_database: dict[str, list[Record]] = defaultdict(list)
    for record in queries:
        by_database[str(record.data.get("db_id"))].append(record)
    for database, records in by_database.items():
        tables = rows.get(database)
        if not tables:
            yield from (Problem(record.place, f"asks about {database}, whose rows are missing") for record in records)
            continue
        passages = {table: [passage for passage, _ in pairs] for table, pairs in tables.items()}
        engine = RowDatabase({table: [row for _, row in pairs] for table, pairs in tables.items()})
        # The rows belong to the database, not to a question: they come with its first one.
        everything = tuple({passage.id: passage for table in passages.values() for passage in table}.values())
        for number, record in enumerate(records, 1):
            try:
                question = _entry(record.data, f"{database}_{number}", engine, passages)
            except BadRecord as error:
                yield Problem(record.place, str(error))
            else:
                yield Entry(question.question, everything)
                everything = ()
        engine.close()


def _entry(
    record: Mapping[str, Any], question_id: str, engine: RowDatabase, passages: Mapping[str, Sequence[Passage]]
) -> Entry:
    query = text(record, "query")
    answer = row_texts(engine.answer(query))
    ranged = engine.ranged_over(query)
    supporting = None if ranged is None else [passages[table][number].id for table, number in sorted(ranged)]
    labels = {"db": record.get("db_id"), "sql": query, "n_answer_rows": len(answer)}
    labels |= kept(record, "difficulty", "query_type")
    question = labelled(
        question_id,
        text(record, "question"),
        answer[:_ANSWER_ROWS],
        supporting or None,
        is_set=True,
        labels=labels,
    )
    return Entry(question)


def _row(record: Mapping[str, Any], database: str, table: str) -> tuple[Passage, dict[str, Any]]:
    try:
        row = json.loads(text(record, "table_row"))
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise BadRecord("has a 'table_row' that is not a JSON object")
    return make_passage(f"{database} {table}", text(record, "verbalized_text")), row


HOLOBENCH = Format(
    name="holobench",
    title="HoloBench (Maekawa et al., 2025)",
    licence="CC BY-SA 4.0",
    source="huggingface.co/datasets/megagonlabs/holobench",
    expects="the folder of the dataset repository: query/DB.csv and DB/TABLE.csv",
    read=_read,
    hub=HubFiles("megagonlabs/holobench", every=".csv"),
    notes=(
        "Gold answers are the results of the published SQL on all rows, run with SQLite; the first 200 rows are kept.",
        "Supporting rows are those that the query ranges over before it groups, sorts or cuts.",
    ),
)
