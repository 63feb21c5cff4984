"""Finds episodes in the index: filters, order, one page at a time, and the neighbours of one episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from beliefrag.methods import METHODS
from beliefrag.web.view.index import RunIndex

__all__ = ["MOST", "ORDERS", "EpisodeFilter", "list_episodes", "neighbours", "others", "patterns"]

MOST = 500
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
_SHOWN = (
    "e.id, e.dataset, e.method, e.question_id, e.outcome, e.correctness, substr(e.answer, 1, 300) AS answer, e.f1, "
    "e.answerability, e.tokens, e.calls, e.rounds, e.seconds, e.actions, e.cause, substr(q.text, 1, 300) AS question"
)


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Which episodes, and in which order. What is left empty leaves nothing out."""

    text: str = ""
    """Words that all occur in the question, its id, the answer or the error."""
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


def list_episodes(index: RunIndex, wanted: EpisodeFilter, *, offset: int = 0, limit: int = 100) -> dict[str, Any]:
    """One page of episodes, and how many there are in all."""
    where, values = _where(wanted)
    total = index.rows(f"SELECT count(*) AS n {_FROM} {where}", values)[0]["n"]
    rows = index.rows(
        f"SELECT {_SHOWN} {_FROM} {where} {_order(wanted)} LIMIT ? OFFSET ?",
        (*values, min(limit, MOST), offset),
    )
    return {"total": total, "offset": offset, "episodes": [_titled(dict(row)) for row in rows]}


def neighbours(index: RunIndex, wanted: EpisodeFilter, number: int) -> dict[str, int | None]:
    """The episodes before and after one in a listing, and its place there (from 1; 0 where it is not in it)."""
    where, values = _where(wanted)
    ids = [row["id"] for row in index.rows(f"SELECT e.id {_FROM} {where} {_order(wanted)}", values)]
    if number not in ids:
        return {"place": 0, "total": len(ids), "previous": None, "next": None}
    at = ids.index(number)
    before, after = ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None
    return {"place": at + 1, "total": len(ids), "previous": before, "next": after}


def others(index: RunIndex, number: int) -> list[dict[str, Any]]:
    """The episodes of all methods on the question of one episode, itself among them."""
    rows = index.rows(
        f"SELECT {_SHOWN} {_FROM} JOIN episodes AS own ON own.dataset = e.dataset "
        "AND own.question_id = e.question_id WHERE own.id = ? ORDER BY e.id",
        (number,),
    )
    return [_titled(dict(row)) for row in rows]


def patterns(index: RunIndex, most: int = 40) -> list[dict[str, Any]]:
    """The sequences of actions that occur, the most frequent first."""
    query = "SELECT actions, count(*) AS episodes FROM episodes GROUP BY actions ORDER BY 2 DESC, 1 LIMIT ?"
    return [dict(row) for row in index.rows(query, (most,))]


def _titled(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "method_title": METHODS.title(row["method"])}


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
        # Whole actions: a space on both sides.
        clauses.append("instr(' ' || e.actions || ' ', ?)")
        values.append(f" {actions} ")
    for bound, relation in ((wanted.least_tokens, ">="), (wanted.most_tokens, "<=")):
        if bound is not None:
            clauses.append(f"e.tokens {relation} ?")
            values.append(bound)
    return (f"WHERE {' AND '.join(clauses)}" if clauses else ""), values


def _order(wanted: EpisodeFilter) -> str:
    column, direction = ORDERS[wanted.order], "DESC" if wanted.descending else "ASC"
    # The number settles ties, so that pages neither repeat nor lose an episode.
    return f"ORDER BY {column} {direction} NULLS LAST, e.id"
