"""A run's episodes as rows of a small database so that a page never reads the whole run.

Each row holds the numbers of one episode and the position of its line in `episodes.jsonl`. Lines are only appended to
that file, so a run that has grown is read from where reading stopped. A file that became shorter, or whose beginning or
last known line has changed, is read from the start. The database is in the cache folder: it can be rebuilt, the run's
folder may be read-only, and the question texts, which it holds for searching, do not belong among a run's files.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from beliefrag.bench.questions import LabelledQuestion
from beliefrag.paths import cache_dir
from beliefrag.record import Episode, EpisodeKey, EpisodeSummary
from beliefrag.runs.run_files import EPISODES_FILE, parse_line, read_episode_at
from beliefrag.web.view.schema import ViewError

_VERSION = 8
_EDGE = 1024
"""Bytes at the beginning and before the end of what was read that must still be the same."""
_SCHEMA = """
CREATE TABLE state (version INTEGER NOT NULL, run TEXT NOT NULL, end INTEGER NOT NULL, edges TEXT NOT NULL);
CREATE TABLE episodes (
  id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, method TEXT NOT NULL, question_id TEXT NOT NULL, seed INTEGER NOT NULL,
  outcome TEXT NOT NULL, correctness TEXT NOT NULL, answer TEXT, f1 REAL, answerability REAL, tokens INTEGER NOT NULL,
  calls INTEGER NOT NULL, rounds INTEGER NOT NULL, seconds REAL NOT NULL, actions TEXT NOT NULL, cause TEXT NOT NULL,
  words TEXT NOT NULL, offset INTEGER NOT NULL, numbers TEXT NOT NULL,
  UNIQUE (dataset, method, question_id, seed)
);
CREATE TABLE questions (
  dataset TEXT NOT NULL, question_id TEXT NOT NULL, text TEXT NOT NULL, gold TEXT NOT NULL, words TEXT NOT NULL,
  PRIMARY KEY (dataset, question_id)
) WITHOUT ROWID;
CREATE TABLE results (name TEXT PRIMARY KEY, state TEXT NOT NULL, record TEXT NOT NULL);
CREATE TABLE known_datasets (dataset TEXT PRIMARY KEY, gold TEXT NOT NULL);
CREATE INDEX by_question ON episodes (dataset, question_id);
CREATE INDEX by_method ON episodes (method, dataset);
CREATE INDEX by_outcome ON episodes (outcome);
CREATE INDEX by_f1 ON episodes (f1);
CREATE INDEX by_tokens ON episodes (tokens);
CREATE INDEX by_calls ON episodes (calls);
CREATE INDEX by_seconds ON episodes (seconds);
CREATE INDEX by_answerability ON episodes (answerability);
CREATE INDEX by_actions ON episodes (actions);
"""


_KEY = ("dataset", "method", "question_id", "seed")
_VALUES = (
    *("outcome", "correctness", "answer", "f1", "answerability", "tokens", "calls", "rounds", "seconds", "actions"),
    *("cause", "words", "offset", "numbers"),
)
_COLUMNS = (*_KEY, *_VALUES)
# A later line for the same episode replaces the earlier one and keeps its number.
_UPSERT = (
    f"INSERT INTO episodes ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "  # noqa: S608 - constants
    f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _VALUES)}"
)


class RunIndex:
    """The index of one run. `refresh` builds it or brings it up to date.

    Args:
        folder: The folder of the run.
        database: The file to use; by default one in the cache folder. If it cannot be written, memory is used.
    """

    def __init__(self, folder: Path, database: Path | None = None) -> None:
        self.path = folder / EPISODES_FILE
        self._lock = threading.RLock()
        self._run = str(self.path.resolve())
        self._seen: tuple[int, int] | None = None
        name = hashlib.sha256(self._run.encode()).hexdigest()[:24]
        self._db = self._open(database or cache_dir() / "view" / f"{name}.sqlite")

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
            end: int = self._db.execute("SELECT end FROM state").fetchone()[0]
            return end

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """Run a query."""
        with self._lock:
            return self._db.execute(query, tuple(values)).fetchall()

    def episodes(self) -> dict[EpisodeKey, EpisodeSummary]:
        """Return the numbers of all episodes."""
        rows = self.rows("SELECT numbers FROM episodes")
        summaries = (EpisodeSummary.model_validate_json(row["numbers"]) for row in rows)
        return {summary.key: summary for summary in summaries}

    def answerabilities(self) -> dict[EpisodeKey, float]:
        """Return the confidence at the end of each episode that has one."""
        rows = self.rows(
            "SELECT dataset, method, question_id, seed, answerability FROM episodes WHERE answerability IS NOT NULL"
        )
        return {EpisodeKey(*row[:4]): row["answerability"] for row in rows}

    def episode(self, number: int) -> Episode | None:
        """Read one whole episode from the file; None for an unknown number."""
        found = self.rows("SELECT offset FROM episodes WHERE id = ?", (number,))
        return read_episode_at(self.path.parent, found[0]["offset"]) if found else None

    def stored_result(self, name: str, state: str) -> str | None:
        """Return what was computed under that name for a state of the run, as JSON; None where there is nothing."""
        found = self.rows("SELECT record FROM results WHERE name = ? AND state = ?", (name, state))
        return str(found[0]["record"]) if found else None

    def store_result(self, name: str, state: str, record: str) -> None:
        """Store a result in the place of the one before: intervals take seconds on a large run."""
        with self._lock, self._write_transaction() as db:
            db.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", (name, state, record))

    def has_questions(self, dataset: str, gold: str) -> bool:
        """Whether the index holds the question texts of the dataset with this hash."""
        return bool(self.rows("SELECT 1 FROM known_datasets WHERE dataset = ? AND gold = ?", (dataset, gold)))

    def store_questions(self, dataset: str, gold: str, questions: Iterable[LabelledQuestion]) -> None:
        """Store a dataset's questions with their gold answers, to search and to show them."""
        with self._lock, self._write_transaction() as db:
            db.execute("DELETE FROM questions WHERE dataset = ?", (dataset,))
            db.executemany(
                "INSERT INTO questions VALUES (?, ?, ?, ?, ?)",
                (_question_row(dataset, each) for each in questions),
            )
            db.execute("INSERT OR REPLACE INTO known_datasets VALUES (?, ?)", (dataset, gold))

    def _open(self, database: Path) -> sqlite3.Connection:
        try:
            database.parent.mkdir(parents=True, exist_ok=True)
            return self._connect(str(database))
        except (sqlite3.DatabaseError, OSError):
            return self._connect(":memory:")

    def _connect(self, database: str) -> sqlite3.Connection:
        db = sqlite3.connect(database, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = WAL")
            # The index can be rebuilt, so it need not survive a power cut.
            db.execute("PRAGMA synchronous = OFF")
            db.execute("BEGIN IMMEDIATE")
            if not self._is_current(db):
                for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    db.execute(f"DROP TABLE IF EXISTS {row['name']}")
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute("INSERT INTO state VALUES (?, ?, 0, '')", (_VERSION, self._run))
            db.execute("COMMIT")
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _is_current(self, db: sqlite3.Connection) -> bool:
        try:
            row = db.execute("SELECT version, run FROM state").fetchone()
        except sqlite3.OperationalError:
            return False
        return row is not None and tuple(row) == (_VERSION, self._run)

    @contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _read_new_lines(self, file: BinaryIO, db: sqlite3.Connection) -> None:
        end, edges = db.execute("SELECT end, edges FROM state").fetchone()
        if _edges(file, end) != edges:
            db.execute("DELETE FROM episodes")
            end = 0
        file.seek(end)
        with closing(db.cursor()) as cursor:
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is still being written
                cursor.execute(_UPSERT, _episode_row(line, end, self.path.parent))
                end += len(line)
        db.execute("UPDATE state SET end = ?, edges = ?", (end, _edges(file, end)))


def _edges(file: BinaryIO, end: int) -> str:
    """Return a hash of the first bytes and of the last ones before `end`, which changes if the file is shorter."""
    if not end:
        return ""
    if os.fstat(file.fileno()).st_size < end:
        return "shorter"
    file.seek(0)
    first = file.read(min(_EDGE, end))
    file.seek(max(0, end - _EDGE))
    last = file.read(min(_EDGE, end))
    return hashlib.sha256(first + b"|" + last).hexdigest()


def _episode_row(line: bytes, offset: int, folder: Path) -> tuple[Any, ...]:
    """Return the values of `_UPSERT` for one line that begins at this byte of the file."""
    episode = parse_line(Episode, line, folder, f"The line at byte {offset:,}")
    key = episode.key
    words = f"{key.question_id}\n{episode.answer or ''}\n{episode.cause}\n{episode.message}".casefold()
    return (
        *key,
        str(episode.outcome),
        _correctness(episode),
        episode.answer,
        episode.metrics.get("f1"),
        episode.answerability,
        episode.usage.tokens,
        episode.usage.calls,
        episode.usage.searches,
        episode.usage.seconds,
        " ".join(step.action for step in episode.steps),
        episode.cause,
        words,
        offset,
        episode.summary().model_dump_json(exclude_defaults=True),
    )


def _question_row(dataset: str, labelled: LabelledQuestion) -> tuple[str, str, str, str, str]:
    text, answers = labelled.question.text, labelled.gold.answers
    words = "\n".join((text, *answers)).casefold()
    return dataset, labelled.id, text, " | ".join(answers), words


def _correctness(summary: EpisodeSummary) -> str:
    """Return the judge's verdict where there is one, otherwise what F1 says: all of it, a part or none."""
    judged, f1 = summary.metrics.get("judge"), summary.metrics.get("f1")
    if judged is not None:
        return "right" if judged >= 0.5 else "wrong"
    if f1 is None:
        return "unscored"
    return "wrong" if f1 <= 0 else "right" if f1 >= 1 else "partly"
