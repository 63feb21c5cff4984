"""A run's episodes as rows of a small database, so that a page never reads the whole run.

Each row holds the numbers of one episode and where its line lies in `episodes.jsonl`. The file is only ever appended
to, so a run that has grown is read from where it was left. A file that shrank, or whose beginning or last known line is
another one, is read anew. The database lies in the cache folder: it can be made again, the run's folder may be
read-only, and question texts, which it takes in for searching, have no place among a run's files.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from beliefrag.paths import cache_dir
from beliefrag.runs.episode import EpisodeKey, EpisodeSummary
from beliefrag.runs.episode_format import read_summary
from beliefrag.runs.store import EPISODES_FILE
from beliefrag.web.view.errors import ViewError
from beliefrag.web.view.lines import read_line
from beliefrag.web.view.rows import UPSERT, episode_row

__all__ = ["RunIndex"]

_VERSION = 5
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
  dataset TEXT NOT NULL, question_id TEXT NOT NULL, text TEXT NOT NULL, words TEXT NOT NULL,
  PRIMARY KEY (dataset, question_id)
) WITHOUT ROWID;
CREATE TABLE overview (state TEXT NOT NULL, record TEXT NOT NULL);
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


class RunIndex:
    """The index of one run, made or brought up to date by `refresh`.

    Args:
        folder: The run's.
        database: Where to keep it; by default in the cache folder. Where nothing can be written it is in memory.
    """

    def __init__(self, folder: Path, database: Path | None = None) -> None:
        self.path = folder / EPISODES_FILE
        self._lock = threading.RLock()
        self._run = str(self.path.resolve())
        self._seen: tuple[int, int] | None = None
        name = hashlib.sha256(self._run.encode()).hexdigest()[:24]
        self._db = self._open(database or cache_dir() / "view" / f"{name}.sqlite")

    def close(self) -> None:
        """Lets go of the database."""
        with self._lock:
            self._db.close()

    def refresh(self) -> int:
        """Takes in what was appended since, and gives how far the file is known, in bytes.

        Raises:
            RunError: A line other than a torn last one is no episode.
            ViewError: The file cannot be read.
        """
        with self._lock:
            try:
                found = self.path.stat()
            except FileNotFoundError:
                return 0
            now = (found.st_size, found.st_mtime_ns)
            if now != self._seen:
                try:
                    with self.path.open("rb") as file, self._writing() as db:
                        self._take_in(file, db)
                except OSError as error:
                    raise ViewError(f"{self.path} cannot be read: {error.strerror}.") from error
                self._seen = now
            end: int = self._db.execute("SELECT end FROM state").fetchone()[0]
            return end

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """What a query gives."""
        with self._lock:
            return self._db.execute(query, tuple(values)).fetchall()

    def episodes(self) -> dict[EpisodeKey, EpisodeSummary]:
        """The numbers of all episodes, as a report wants them."""
        rows = self.rows("SELECT offset, numbers FROM episodes")
        summaries = (read_summary(json.loads(row["numbers"]), row["offset"]) for row in rows)
        return {summary.key: summary for summary in summaries}

    def record(self, number: int) -> dict[str, Any] | None:
        """The whole line of an episode, read from the file; None where there is no such number."""
        found = self.rows("SELECT offset FROM episodes WHERE id = ?", (number,))
        if not found:
            return None
        with self.path.open("rb") as file:
            file.seek(found[0]["offset"])
            record: dict[str, Any] = read_line(file.readline())
            return record

    def kept_overview(self, state: str) -> Any:
        """The overview that was kept for a state of the run; None where there is none."""
        found = self.rows("SELECT record FROM overview WHERE state = ?", (state,))
        return json.loads(found[0]["record"]) if found else None

    def keep_overview(self, state: str, record: Any) -> None:
        """Keeps an overview: its intervals take seconds on a large run. The one before is forgotten."""
        with self._lock, self._writing() as db:
            db.execute("DELETE FROM overview")
            db.execute("INSERT INTO overview VALUES (?, ?)", (state, json.dumps(record)))

    def knows_questions(self, dataset: str, gold: str) -> bool:
        """Whether the texts of a dataset's questions are in the index, for the dataset with this hash."""
        return bool(self.rows("SELECT 1 FROM known_datasets WHERE dataset = ? AND gold = ?", (dataset, gold)))

    def learn_questions(self, dataset: str, gold: str, texts: Mapping[str, str]) -> None:
        """Takes in the texts of a dataset's questions, to search and to show them."""
        rows = [(dataset, identifier, text, text.casefold()) for identifier, text in texts.items()]
        with self._lock, self._writing() as db:
            db.execute("DELETE FROM questions WHERE dataset = ?", (dataset,))
            db.executemany("INSERT INTO questions VALUES (?, ?, ?, ?)", rows)
            db.execute("INSERT OR REPLACE INTO known_datasets VALUES (?, ?)", (dataset, gold))

    def _open(self, database: Path) -> sqlite3.Connection:
        try:
            database.parent.mkdir(parents=True, exist_ok=True)
            return self._prepared(str(database))
        except (sqlite3.DatabaseError, OSError):
            return self._prepared(":memory:")

    def _prepared(self, database: str) -> sqlite3.Connection:
        db = sqlite3.connect(database, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = WAL")
            # It can be made again: what a power cut takes is not worth waiting for the disk.
            db.execute("PRAGMA synchronous = OFF")
            db.execute("BEGIN IMMEDIATE")
            if not self._is_ours(db):
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

    def _is_ours(self, db: sqlite3.Connection) -> bool:
        try:
            row = db.execute("SELECT version, run FROM state").fetchone()
        except sqlite3.OperationalError:
            return False
        return row is not None and tuple(row) == (_VERSION, self._run)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _take_in(self, file: BinaryIO, db: sqlite3.Connection) -> None:
        end, edges = db.execute("SELECT end, edges FROM state").fetchone()
        if _edges(file, end) != edges:
            db.execute("DELETE FROM episodes")
            end = 0
        file.seek(end)
        with closing(db.cursor()) as cursor:
            for line in file:
                if not line.endswith(b"\n"):
                    break  # being written, or torn
                cursor.execute(UPSERT, episode_row(line, end, self.path))
                end += len(line)
        db.execute("UPDATE state SET end = ?, edges = ?", (end, _edges(file, end)))


def _edges(file: BinaryIO, end: int) -> str:
    """A hash of the beginning and of the last bytes before `end`; another one where the file is shorter than that."""
    if not end:
        return ""
    if os.fstat(file.fileno()).st_size < end:
        return "shorter"
    file.seek(0)
    first = file.read(min(_EDGE, end))
    file.seek(max(0, end - _EDGE))
    last = file.read(min(_EDGE, end))
    return hashlib.sha256(first + b"|" + last).hexdigest()
