"""Finds episodes in the index: filters, order, one page at a time, and the neighbours of one episode."""

# ruff: noqa: S608 - only constants of this file become part of a query; values are bound
from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from beliefrag.methods import METHODS
from beliefrag.web.view.index import RunIndex

MAX_ROWS = 500
"""Rows that one page can have."""

ORDERS = {
    "file": "e.id",
    "question": "q.text",
    "dataset": "e.dataset",
    "method": "e.method",
    "outcome": "e.outcome",
    "f1": "e.f1",
    "answerability": "e.answerability",
    "tokens": "e.tokens",
    "calls": "e.calls",
    "rounds": "e.rounds",
    "seconds": "e.seconds",
}
"""What episodes can be ordered by."""

_FROM = "FROM episodes AS e LEFT JOIN questions AS q ON q.dataset = e.dataset AND q.question_id = e.question_id"
_COLUMNS = (
    "e.id, e.dataset, e.method, e.question_id, e.seed, e.outcome, e.correctness, substr(e.answer, 1, 300) AS answer, "
    "e.f1, e.answerability, e.tokens, e.calls, e.rounds, e.seconds, e.actions, e.cause, "
    "substr(q.text, 1, 300) AS question, substr(q.gold, 1, 300) AS gold"
)
_GROUP = "OVER (PARTITION BY e.dataset, e.question_id)"


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Which episodes, and in which order. An empty field filters nothing."""

    text: str = ""
    """Words that must all occur in the question, its gold answers, its id, the answer or the error."""
    dataset: str = ""
    method: str = ""
    outcome: str = ""
    correctness: str = ""
    actions: str = ""
    """Actions that follow each other somewhere in the episode."""
    least_tokens: int | None = None
    most_tokens: int | None = None
    order: str = "file"
    descending: bool = False
    grouped: bool = False
    """Whether the episodes of one question stay together, in the place of the first of them."""


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode in a list. Answer, question and gold answers are cut to 300 characters."""

    id: int
    dataset: str
    method: str
    question_id: str
    seed: int
    outcome: str
    correctness: str
    answer: str | None
    f1: float | None
    answerability: float | None
    tokens: int
    calls: int
    rounds: int
    seconds: float
    actions: str
    cause: str
    question: str | None
    gold: str | None
    """All gold answers, with | between them; None where the dataset is not here."""
    method_title: str


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """One page of a list."""

    total: int
    """How many episodes there are on all pages; in a list by questions, how many questions."""
    offset: int
    episodes: list[EpisodeRow]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The place of an episode in a list, and the episodes around it."""

    place: int
    """Counted from 1; 0 where the episode is not in the list."""
    total: int
    previous: int | None
    next: int | None


@dataclass(frozen=True, slots=True)
class ActionPattern:
    """A sequence of actions, and how many episodes took it."""

    actions: str
    episodes: int


def list_episodes(index: RunIndex, wanted: EpisodeFilter, *, offset: int = 0, limit: int = 100) -> EpisodePage:
    """Return one page of episodes and how many there are in all; where they are grouped, a page of questions."""
    where, values = _where(wanted)
    unit = "DISTINCT e.dataset, e.question_id" if wanted.grouped else "e.id"
    total = index.rows(f"SELECT count(*) AS n FROM (SELECT {unit} {_FROM} {where})", values)[0]["n"]
    ranked = f"SELECT id, dense_rank() OVER (ORDER BY {_order(wanted)}) AS rank FROM ({_places(wanted, where)})"
    rows = index.rows(
        f"SELECT {_COLUMNS} {_FROM} JOIN ({ranked}) AS r ON r.id = e.id WHERE r.rank > ? AND r.rank <= ? "
        "ORDER BY r.rank, e.id",
        (*values, offset, offset + min(limit, MAX_ROWS)),
    )
    return EpisodePage(total, offset, [_to_row(row) for row in rows])


def find_neighbours(index: RunIndex, wanted: EpisodeFilter, number: int) -> Neighbours:
    """Find the episodes before and after one in a list."""
    where, values = _where(wanted)
    query = f"SELECT id FROM ({_places(wanted, where)}) ORDER BY {_order(wanted)}, id"
    ids = [row["id"] for row in index.rows(query, values)]
    if number not in ids:
        return Neighbours(0, len(ids), None, None)
    at = ids.index(number)
    before, after = ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None
    return Neighbours(at + 1, len(ids), before, after)


def list_same_question(index: RunIndex, number: int) -> list[EpisodeRow]:
    """Return the episodes of all methods on the question of one episode, including that one."""
    rows = index.rows(
        f"SELECT {_COLUMNS} {_FROM} JOIN episodes AS own ON own.dataset = e.dataset "
        "AND own.question_id = e.question_id WHERE own.id = ? ORDER BY e.id",
        (number,),
    )
    return [_to_row(row) for row in rows]


def action_patterns(index: RunIndex, most: int = 40) -> list[ActionPattern]:
    """Return the sequences of actions that occur, the most frequent first."""
    query = "SELECT actions, count(*) AS episodes FROM episodes GROUP BY actions ORDER BY 2 DESC, 1 LIMIT ?"
    return [ActionPattern(row["actions"], row["episodes"]) for row in index.rows(query, (most,))]


def _to_row(row: sqlite3.Row) -> EpisodeRow:
    fields = {name: row[name] for name in EpisodeRow.__slots__ if name != "method_title"}
    return EpisodeRow(**fields, method_title=METHODS.title(row["method"]))


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
    for bound, relation in ((wanted.least_tokens, ">="), (wanted.most_tokens, "<=")):
        if bound is not None:
            clauses.append(f"e.tokens {relation} ?")
            values.append(bound)
    return (f"WHERE {' AND '.join(clauses)}" if clauses else ""), values


def _places(wanted: EpisodeFilter, where: str) -> str:
    """Select the episodes with `place`, by which they are ordered, and `first`, which decides ties."""
    column = ORDERS[wanted.order]
    place, first = column, "e.id"
    if wanted.grouped:
        place = f"{'max' if wanted.descending else 'min'}({column}) {_GROUP}"
        first = f"min(e.id) {_GROUP}"
    return f"SELECT e.id AS id, {place} AS place, {first} AS first {_FROM} {where}"


def _order(wanted: EpisodeFilter) -> str:
    # `first` differs between episodes, or between questions: pages neither repeat nor lose one.
    return f"place {'DESC' if wanted.descending else 'ASC'} NULLS LAST, first"
