"""HoloBench: gold answers and rows from the published SQL, run where it can do no harm."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from beliefrag.bench.datasets import find_format
from beliefrag.bench.datasets.common_form import read_published_files
from beliefrag.bench.datasets.formats import BadRecord
from beliefrag.bench.datasets.holobench import RowDatabase
from beliefrag.runs.run_errors import DataError

WINES = [
    {"No": 1, "Name": "Giana", "Grape": "Zinfandel", "Score": 93},
    {"No": 2, "Name": "Annum", "Grape": "Merlot", "Score": 88},
    {"No": 3, "Name": "Tradition", "Grape": "Zinfandel", "Score": 95},
]
GRAPES = [
    {"Grape": "Zinfandel", "Color": "Red"},
    {"Grape": "Merlot", "Color": "Red"},
    {"Grape": "Gewurz", "Color": "White"},
]


def repository(folder: Path, *queries: tuple[str, str]) -> Path:
    (folder / "query").mkdir(parents=True)
    (folder / "wine_1").mkdir()
    for table, rows in (("wine", WINES), ("grapes", GRAPES)):
        with (folder / "wine_1" / f"{table}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["verbalized_text", "table_row"])
            writer.writerows([f"The {table} row {' '.join(map(str, row.values()))}.", json.dumps(row)] for row in rows)
    with (folder / "query" / "wine_1.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "query", "db_id", "difficulty", "query_type"])
        writer.writerows([question, query, "wine_1", "Easy", "['Join']"] for question, query in queries)
    return folder


def read(folder: Path) -> Any:
    return read_published_files(find_format("holobench"), [folder])


def test_answers_and_rows_are_those_of_the_query(tmp_path: Path) -> None:
    dataset = read(
        repository(
            tmp_path / "hub",
            ("Which wines score above 90?", "SELECT Name FROM wine WHERE Score > 90"),
            (
                "How many red wines are there?",
                "SELECT COUNT(*) FROM wine AS w INNER JOIN grapes ON w.Grape = grapes.Grape WHERE grapes.Color = 'Red'",
            ),
            ("Which is best?", "SELECT Name, Score FROM wine ORDER BY Score DESC LIMIT 1"),
        )
    )
    texts = {passage.id: passage.text for passage in dataset.passages}
    above, count, best = dataset.questions
    assert above.gold.is_set and above.gold.answers == ("Giana", "Tradition")
    assert sorted(texts[name] for name in above.gold.supporting) == [
        "The wine row 1 Giana Zinfandel 93.",
        "The wine row 3 Tradition Zinfandel 95.",
    ]
    assert count.gold.answers == ("3",) and len(count.gold.supporting) == 5
    assert best.gold.answers == ("Tradition | 95",) and len(best.gold.supporting) == 3
    assert len(dataset.passages) == 6


def test_a_nested_query_has_answers_but_no_known_rows(tmp_path: Path) -> None:
    query = "SELECT Name FROM wine WHERE Score = (SELECT MAX(Score) FROM wine)"
    (question,) = read(repository(tmp_path / "hub", ("Best?", query))).questions
    assert (question.gold.answers, question.gold.supporting) == (("Tradition",), None)


def test_a_query_that_does_not_run_is_reported_with_its_line(tmp_path: Path) -> None:
    folder = repository(tmp_path / "hub", ("a?", "SELECT Name FROM wine"), ("b?", "SELECT nothing FROM nowhere"))
    with pytest.raises(DataError, match=r"wine_1\.csv line 3: .*query"):
        read(folder)


def test_rows_without_queries_are_not_a_benchmark(tmp_path: Path) -> None:
    folder = repository(tmp_path / "hub", ("a?", "SELECT Name FROM wine"))
    (folder / "query" / "wine_1.csv").unlink()
    with pytest.raises(DataError, match="no queries"):
        read(folder)


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE wine",
        "DELETE FROM wine",
        "ATTACH DATABASE 'stolen.db' AS other",
        "SELECT 1; DROP TABLE wine",
        "PRAGMA database_list",
        "CREATE TABLE x (y)",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
        "SELECT load_extension('x')",
    ],
)
def test_a_query_can_do_nothing_but_read(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    database = RowDatabase({"wine": WINES})
    with pytest.raises(BadRecord, match="cannot be run"):
        database.answer(query)
    assert len(database.answer("SELECT * FROM wine")) == 3
    assert not list(tmp_path.iterdir())
    database.close()


def test_a_query_that_would_run_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefrag.bench.datasets.holobench._MAX_STEPS", 100)
    database = RowDatabase({"wine": WINES * 100})
    with pytest.raises(BadRecord, match="interrupted"):
        database.answer("SELECT count(*) FROM wine a, wine b, wine c, wine d")
    database.close()


def test_a_keyword_in_a_string_is_no_keyword() -> None:
    database = RowDatabase({"wine": [{"Name": "GROUP BY Estate"}, {"Name": "x"}]})
    assert database.list_rows_in_range("SELECT Name FROM wine WHERE Name = 'GROUP BY Estate'") == {("wine", 0)}
    database.close()
