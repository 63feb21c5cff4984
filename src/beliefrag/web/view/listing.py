"""Finds episodes in the index: filters, order, one page at a time, and the neighbours of one episode."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from beliefrag.methods import METHODS
from beliefrag.web.view.index import RunIndex

__all__ = [
    "MAX_ROWS",
    "ORDERS",
    "ActionPattern",
    "EpisodeFilter",
    "EpisodePage",
    "EpisodeRow",
    "Neighbours",
    "action_patterns",
    "find_neighbours",
    "list_episodes",
    "list_same_question",
]

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
    "e.id, e.dataset, e.method, e.question_id, e.outcome, e.correctness, substr(e.answer, 1, 300) AS answer, e.f1, "
    "e.answerability, e.tokens, e.calls, e.rounds, e.seconds, e.actions, e.cause, substr(q.text, 1, 300) AS question"
)


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Which episodes, and in which order. An empty field filters nothing."""

    text: str = ""
    """Words that must all occur in the question, its id, the answer or the error."""
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


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode in a list. Answer and question are cut to 300 characters."""

    id: int
    dataset: str
    method: str
    question_id: str
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
    method_title: str


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """One page of a list."""

    total: int
    """How many episodes there are on all pages."""
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
    """Gives one page of episodes, and how many there are in all."""
    where, values = _where(wanted)
    total = index.rows(f"SELECT count(*) AS n {_FROM} {where}", values)[0]["n"]
    rows = index.rows(
        f"SELECT {_COLUMNS} {_FROM} {where} {_order(wanted)} LIMIT ? OFFSET ?",
        (*values, min(limit, MAX_ROWS), offset),
    )
    return EpisodePage(total, offset, [_to_row(row) for row in rows])


def find_neighbours(index: RunIndex, wanted: EpisodeFilter, number: int) -> Neighbours:
    """Finds the episodes before and after one in a list."""
    where, values = _where(wanted)
    ids = [row["id"] for row in index.rows(f"SELECT e.id {_FROM} {where} {_order(wanted)}", values)]
    if number not in ids:
        return Neighbours(0, len(ids), None, None)
    at = ids.index(number)
    before, after = ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None
    return Neighbours(at + 1, len(ids), before, after)


def list_same_question(index: RunIndex, number: int) -> list[EpisodeRow]:
    """Gives the episodes of all methods on the question of one episode, including that one."""
    rows = index.rows(
        f"SELECT {_COLUMNS} {_FROM} JOIN episodes AS own ON own.dataset = e.dataset "
        "AND own.question_id = e.question_id WHERE own.id = ? ORDER BY e.id",
        (number,),
    )
    return [_to_row(row) for row in rows]


def action_patterns(index: RunIndex, most: int = 40) -> list[ActionPattern]:
    """Gives the sequences of actions that occur, the most frequent first."""
    query = "SELECT actions, count(*) AS episodes FROM episodes GROUP BY actions ORDER BY 2 DESC, 1 LIMIT ?"
    return [ActionPattern(row["actions"], row["episodes"]) for row in index.rows(query, (most,))]


def _to_row(row: sqlite3.Row) -> EpisodeRow:
    return EpisodeRow(**dict(row), method_title=METHODS.title(row["method"]))


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
        # Spaces on both sides, so that only whole actions match.
        clauses.append("instr(' ' || e.actions || ' ', ?)")
        values.append(f" {actions} ")
    for bound, relation in ((wanted.least_tokens, ">="), (wanted.most_tokens, "<=")):
        if bound is not None:
            clauses.append(f"e.tokens {relation} ?")
            values.append(bound)
    return (f"WHERE {' AND '.join(clauses)}" if clauses else ""), values


def _order(wanted: EpisodeFilter) -> str:
    column, direction = ORDERS[wanted.order], "DESC" if wanted.descending else "ASC"
    # The id decides ties, so that pages neither repeat nor lose an episode.
    return f"ORDER BY {column} {direction} NULLS LAST, e.id"
