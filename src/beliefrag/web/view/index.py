"""A run's episodes as rows of a small database: a page never reads the whole run.

A row holds the numbers of one episode and the position of its line in `episodes.jsonl`. A run that has grown is read
from where reading stopped; a file that was replaced is read from the start. The database is in the cache folder: the
run's folder may be read-only, and the question texts, which are searched, do not belong among a run's files.
"""

# ruff: noqa: S608 - only constants of this file become part of a query; values are bound
from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.bench.questions import LabelledQuestion
from beliefrag.methods import METHODS
from beliefrag.record import Episode, EpisodeKey, EpisodeSummary
from beliefrag.runs.run_files import EPISODES_FILE, parse_line, read_episode_at
from beliefrag.settings import cache_dir
from beliefrag.web.view.schema import NotAvailable, ViewError

_VERSION = 10
_EDGE = 1024  # bytes at both ends of what was read that must still be the same
_KEY = EpisodeKey._fields
_SHOWN = ("f1", "answerability", "tokens", "calls", "rounds", "seconds", "outcome", "correctness", "actions", "cause")
_VALUES = ("answer", *_SHOWN, "words", "offset", "numbers")
_SCHEMA = (
    "CREATE TABLE state (end, edges)",
    f"CREATE TABLE episodes (id INTEGER PRIMARY KEY, {', '.join(_KEY + _VALUES)}, UNIQUE ({', '.join(_KEY)}))",
    "CREATE INDEX by_question ON episodes (dataset, question_id)",
    "CREATE TABLE questions (dataset, question_id, text, gold, words, PRIMARY KEY (dataset, question_id))",
    "CREATE TABLE known_datasets (dataset PRIMARY KEY, gold)",
    "INSERT INTO state VALUES (0, '')",
    f"PRAGMA user_version = {_VERSION}",
)
# A later line for the same episode replaces the earlier one and keeps its number.
_UPSERT = (
    f"INSERT INTO episodes ({', '.join(_KEY + _VALUES)}) VALUES ({', '.join('?' * len(_KEY + _VALUES))}) "
    f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _VALUES)}"
)
_FROM = "FROM episodes AS e LEFT JOIN questions AS q ON q.dataset = e.dataset AND q.question_id = e.question_id"
_LISTED = ", ".join(f"e.{name}" for name in ("id", *_KEY, *_SHOWN)) + (
    ", substr(e.answer, 1, 300) AS answer, substr(q.text, 1, 300) AS question, substr(q.gold, 1, 300) AS gold"
)
_GROUP = "OVER (PARTITION BY e.dataset, e.question_id)"
LARGEST = 2**63 - 1  # that the database can hold
ORDERS = {"file": "e.id", "question": "q.text"} | {
    name: f"e.{name}"
    for name in ("dataset", "method", "outcome", "f1", "answerability", "tokens", "calls", "rounds", "seconds")
}

Row = dict[str, Any]
"""An episode in a list: `Row` in viewer/src/schema.ts."""
_Count = Annotated[int, Field(ge=0, le=LARGEST)]


class RunIndex:
    """The index of the run in a folder, in memory if the database cannot be written. `refresh` brings it up to date."""

    def __init__(self, folder: Path, database: Path | None = None) -> None:
        self.path = folder / EPISODES_FILE
        self._lock = threading.RLock()
        self._seen: tuple[int, int] | None = None
        name = hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:24]
        database = database or cache_dir() / "view" / f"{name}.sqlite"
        try:
            database.parent.mkdir(parents=True, exist_ok=True)
            self._db = _connect(str(database))
        except (sqlite3.DatabaseError, OSError):
            self._db = _connect(":memory:")

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    def refresh(self) -> int:
        """Read what was appended since and return how many bytes of the file are known."""
        with self._lock:
            try:
                found = self.path.stat()
            except FileNotFoundError:
                return 0
            now = (found.st_size, found.st_mtime_ns)
            if now != self._seen:
                try:
                    with self.path.open("rb") as file, self._write_transaction() as db:
                        self._read_new_lines(file, db)
                except OSError as error:
                    raise ViewError(f"{self.path} cannot be read: {error.strerror}.") from error
                self._seen = now
            return int(self._db.execute("SELECT end FROM state").fetchone()[0])

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """Run a query."""
        with self._lock:
            return self._db.execute(query, tuple(values)).fetchall()

    def episodes(self) -> dict[EpisodeKey, EpisodeSummary]:
        """Return the numbers of all episodes."""
        rows = self.rows("SELECT numbers FROM episodes")
        summaries = (EpisodeSummary.model_validate_json(row["numbers"]) for row in rows)
        return {summary.key: summary for summary in summaries}

    def episode(self, number: int) -> Episode:
        """Read one whole episode from the file, or raise `NotAvailable`."""
        for row in self.rows("SELECT offset FROM episodes WHERE id = ?", (number,)):
            return read_episode_at(self.path.parent, row["offset"])
        raise NotAvailable(f"The run has no episode {number}.")

    def has_questions(self, dataset: str, gold: str) -> bool:
        """Return whether the index holds the question texts of the dataset with this hash."""
        return bool(self.rows("SELECT 1 FROM known_datasets WHERE dataset = ? AND gold = ?", (dataset, gold)))

    def store_questions(self, dataset: str, gold: str, questions: Iterable[LabelledQuestion]) -> None:
        """Store a dataset's questions with their gold answers, to search and to show them."""
        with self._write_transaction() as db:
            db.execute("DELETE FROM questions WHERE dataset = ?", (dataset,))
            for each in questions:
                text, answers = each.question.text, each.gold.answers
                row = (dataset, each.id, text, " | ".join(answers), "\n".join((text, *answers)).casefold())
                db.execute("INSERT INTO questions VALUES (?, ?, ?, ?, ?)", row)
            db.execute("INSERT OR REPLACE INTO known_datasets VALUES (?, ?)", (dataset, gold))

    @contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._db as db:  # which commits, or rolls back
            db.execute("BEGIN IMMEDIATE")
            yield db

    def _read_new_lines(self, file: BinaryIO, db: sqlite3.Connection) -> None:
        end, edges = db.execute("SELECT end, edges FROM state").fetchone()
        if _hash_edges(file, end) != edges:
            db.execute("DELETE FROM episodes")
            end = 0
        file.seek(end)
        with closing(db.cursor()) as cursor:
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is still being written
                cursor.execute(_UPSERT, _episode_row(line, end, self.path.parent))
                end += len(line)
        db.execute("UPDATE state SET end = ?, edges = ?", (end, _hash_edges(file, end)))


def _connect(database: str) -> sqlite3.Connection:
    db = sqlite3.connect(database, timeout=60, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA journal_mode = WAL")
        # The index can be rebuilt, so it need not survive a power cut.
        db.execute("PRAGMA synchronous = OFF")
        with db:
            db.execute("BEGIN IMMEDIATE")
            if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
                for statement in (*(f"DROP TABLE {row['name']}" for row in tables), *_SCHEMA):
                    db.execute(statement)
    except sqlite3.Error:
        db.close()
        raise
    return db


def _hash_edges(file: BinaryIO, end: int) -> str:
    """Hash the first bytes and the last ones before `end`, to notice a file that was replaced."""
    if not end:
        return ""
    if os.fstat(file.fileno()).st_size < end:
        return "shorter"
    file.seek(0)
    first = file.read(min(_EDGE, end))
    file.seek(max(0, end - _EDGE))
    return hashlib.sha256(first + b"|" + file.read(min(_EDGE, end))).hexdigest()


def _episode_row(line: bytes, offset: int, folder: Path) -> list[Any]:
    """Return the values of `_UPSERT` for one line that begins at this byte of the file."""
    episode = parse_line(Episode, line, folder, f"The line at byte {offset:,}")
    words = f"{episode.question.id}\n{episode.answer or ''}\n{episode.cause}\n{episode.message}"
    values = {
        **episode.key._asdict(),
        "answer": episode.answer,
        "f1": episode.metrics.get("f1"),
        "answerability": episode.answerability,
        "tokens": episode.usage.tokens,
        "calls": episode.usage.calls,
        "rounds": episode.usage.searches,
        "seconds": episode.usage.seconds,
        "outcome": str(episode.outcome),
        "correctness": _correctness(episode),
        "actions": " ".join(step.action for step in episode.steps),
        "cause": episode.cause,
        "words": words.casefold(),
        "offset": offset,
        "numbers": episode.summary().model_dump_json(exclude_defaults=True),
    }
    return [values[name] for name in _KEY + _VALUES]


def _correctness(summary: EpisodeSummary) -> str:
    """Return the judge's verdict if there is one, otherwise what F1 says: all of it, a part or none."""
    judged, f1 = summary.metrics.get("judge"), summary.metrics.get("f1")
    if judged is not None:
        return "right" if judged >= 0.5 else "wrong"
    if f1 is None:
        return "unscored"
    return "wrong" if f1 <= 0 else "right" if f1 >= 1 else "partly"


class EpisodeFilter(BaseModel):
    """Which episodes to list, in which order: the query of a page's address. An empty field filters nothing."""

    model_config = ConfigDict(frozen=True)

    text: Annotated[str, Field(max_length=1000)] = ""
    """Words that must all occur in the question, its gold answers, its id, the answer or the error."""
    dataset: str = ""
    method: str = ""
    outcome: str = ""
    correctness: str = ""
    actions: str = ""
    order: Annotated[str, Field(pattern=f"^({'|'.join(ORDERS)})$")] = "file"
    direction: Literal["up", "down"] = "up"
    by: Literal["question", "episode"] = "episode"
    """By question: the episodes of a question stay together, in the place of the first of them."""
    offset: _Count = 0
    limit: Annotated[int, Field(ge=1, le=500)] = 100


def list_episodes(index: RunIndex, wanted: EpisodeFilter) -> tuple[int, list[Row]]:
    """Return how many episodes there are on all pages, and those of one page; by question, how many questions."""
    where, values = _where(wanted)
    unit = "DISTINCT e.dataset, e.question_id" if wanted.by == "question" else "e.id"
    total = index.rows(f"SELECT count(*) AS n FROM (SELECT {unit} {_FROM} {where})", values)[0]["n"]
    ranked = f"SELECT id, dense_rank() OVER (ORDER BY {_order(wanted)}) AS rank FROM ({_places(wanted, where)})"
    rows = index.rows(
        f"SELECT {_LISTED} {_FROM} JOIN ({ranked}) AS r ON r.id = e.id WHERE r.rank > ? AND r.rank - ? <= ? "
        "ORDER BY r.rank, e.id",
        (*values, wanted.offset, wanted.offset, wanted.limit),
    )
    return total, _with_titles(rows)


def find_neighbours(index: RunIndex, wanted: EpisodeFilter, number: int) -> Row:
    """Return the place of an episode in a list, 0 if it is not in it, and the ids of the episodes around it."""
    where, values = _where(wanted)
    query = f"SELECT id FROM ({_places(wanted, where)}) ORDER BY {_order(wanted)}, id"
    ids = [row["id"] for row in index.rows(query, values)]
    place = ids.index(number) + 1 if number in ids else 0
    around = [None, *ids, None][place - 1 : place + 2] if place else [None] * 3
    return {"place": place, "total": len(ids), "previous": around[0], "next": around[2]}


def list_same_question(index: RunIndex, number: int) -> list[Row]:
    """Return the episodes of all methods on the question of one episode, including that one."""
    same = "JOIN episodes AS own ON own.dataset = e.dataset AND own.question_id = e.question_id"
    return _with_titles(index.rows(f"SELECT {_LISTED} {_FROM} {same} WHERE own.id = ? ORDER BY e.id", (number,)))


def _with_titles(rows: Iterable[sqlite3.Row]) -> list[Row]:
    return [{**row, "method_title": METHODS.title(row["method"])} for row in map(dict, rows)]


def _where(wanted: EpisodeFilter) -> tuple[str, list[Any]]:
    clauses: list[str] = []
    values: list[Any] = []
    for word in wanted.text.casefold().split():
        clauses.append("(instr(e.words, ?) OR instr(q.words, ?))")
        values += [word, word]
    for column in ("dataset", "method", "outcome", "correctness"):
        if value := getattr(wanted, column):
            clauses.append(f"e.{column} = ?")
            values.append(value)
    if actions := " ".join(wanted.actions.upper().split()):
        # Spaces on both sides so that only whole actions match.
        clauses.append("instr(' ' || e.actions || ' ', ?)")
        values.append(f" {actions} ")
    return (f"WHERE {' AND '.join(clauses)}" if clauses else ""), values


def _places(wanted: EpisodeFilter, where: str) -> str:
    """Select the episodes with `place`, by which they are ordered, and `first`, which decides ties."""
    place, first = ORDERS[wanted.order], "e.id"
    if wanted.by == "question":
        place = f"{'max' if wanted.direction == 'down' else 'min'}({place}) {_GROUP}"
        first = f"min(e.id) {_GROUP}"
    return f"SELECT e.id AS id, {place} AS place, {first} AS first {_FROM} {where}"


def _order(wanted: EpisodeFilter) -> str:
    # `first` differs between episodes, or between questions: pages neither repeat nor lose one.
    return f"place {'DESC' if wanted.direction == 'down' else 'ASC'} NULLS LAST, first"
