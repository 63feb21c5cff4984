"""A run's episodes as rows that a page lists: read once, and then only what was appended.

A row holds what a list shows of one episode; its line in `episodes.jsonl` is read when the episode is opened. A file
that was replaced is read from the start.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.bench.questions import LabelledQuestion
from beliefrag.methods import METHODS
from beliefrag.record import Episode, EpisodeKey, EpisodeSummary
from beliefrag.runs.run_files import EPISODES_FILE, parse_line, read_episode_at
from beliefrag.web.view.schema import NotAvailable, ViewError

_EDGE = 1024  # bytes at both ends of what was read that must still be the same
_SHOWN = 300  # characters of a text in a list
ORDERS = (
    *("file", "question", "dataset", "method", "outcome"),
    *("f1", "answerability", "tokens", "calls", "rounds", "seconds"),
)

Row = dict[str, Any]
"""An episode in a list: `Row` in viewer/src/schema.ts."""


@dataclass(frozen=True, slots=True)
class _Entry:
    row: Row
    words: str
    offset: int
    summary: EpisodeSummary


class RunIndex:
    """The episodes of the run in a folder; `questions` are by dataset and id. `refresh` brings it up to date."""

    def __init__(self, folder: Path, questions: Mapping[tuple[str, str], LabelledQuestion] = {}) -> None:
        self.path = folder / EPISODES_FILE
        self._questions = questions
        self._lock = threading.Lock()
        self._entries: dict[EpisodeKey, _Entry] = {}
        self._seen: tuple[int, int] | None = None
        self._end, self._edges = 0, ""

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
                    with self.path.open("rb") as file:
                        self._read_new_lines(file)
                except OSError as error:
                    raise ViewError(f"{self.path} cannot be read: {error.strerror}.") from error
                self._seen = now
            return self._end

    def entries(self) -> list[_Entry]:
        """Return all episodes in the order of their numbers, which count from 1."""
        with self._lock:
            return list(self._entries.values())

    def episodes(self) -> dict[EpisodeKey, EpisodeSummary]:
        """Return the numbers of all episodes."""
        return {entry.summary.key: entry.summary for entry in self.entries()}

    def entry(self, number: int) -> _Entry:
        """Return the episode of that number, or raise `NotAvailable`."""
        entries = self.entries()
        if not 0 < number <= len(entries):
            raise NotAvailable(f"The run has no episode {number}.")
        return entries[number - 1]

    def episode(self, number: int) -> Episode:
        """Read one whole episode from the file, or raise `NotAvailable`."""
        return read_episode_at(self.path.parent, self.entry(number).offset)

    def _read_new_lines(self, file: BinaryIO) -> None:
        if _hash_edges(file, self._end) != self._edges:
            self._entries.clear()
            self._end, self._edges = 0, ""
        end = self._end
        file.seek(end)
        for line in file:
            if not line.endswith(b"\n"):
                break  # it is still being written
            self._add(parse_line(Episode, line, self.path.parent, f"The line at byte {end:,}"), end)
            end += len(line)
        self._end, self._edges = end, _hash_edges(file, end)

    def _add(self, episode: Episode, offset: int) -> None:
        """Add an episode. A later line for the same episode replaces the earlier one and keeps its number."""
        known, asked = self._entries.get(episode.key), self._questions.get((episode.dataset, episode.question.id))
        text, answers = (asked.question.text, asked.gold.answers) if asked else ("", ())
        words = (episode.question.id, episode.answer or "", episode.cause, episode.message, text, *answers)
        row = {
            "id": known.row["id"] if known else len(self._entries) + 1,
            **episode.key._asdict(),
            "method_title": METHODS.title(episode.method),
            "question": text[:_SHOWN] or None,
            "gold": " | ".join(answers)[:_SHOWN] or None,
            "answer": episode.answer and episode.answer[:_SHOWN],
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
        }
        self._entries[episode.key] = _Entry(row, "\n".join(words).casefold(), offset, episode.summary())


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
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=500)] = 100


def list_episodes(index: RunIndex, wanted: EpisodeFilter) -> tuple[int, list[Row]]:
    """Return how many episodes there are on all pages, and those of one page; by question, how many questions."""
    groups = _find_groups(index, wanted)
    page = groups[wanted.offset : wanted.offset + wanted.limit]
    return len(groups), [row for group in page for row in group]


def find_neighbours(index: RunIndex, wanted: EpisodeFilter, number: int) -> Row:
    """Return the place of an episode in a list, 0 if it is not in it, and the ids of the episodes around it."""
    ids = [row["id"] for group in _find_groups(index, wanted) for row in group]
    place = ids.index(number) + 1 if number in ids else 0
    around = [None, *ids, None][place - 1 : place + 2] if place else [None] * 3
    return {"place": place, "total": len(ids), "previous": around[0], "next": around[2]}


def list_same_question(index: RunIndex, number: int) -> list[Row]:
    """Return the episodes of all methods on the question of one episode, including that one."""
    question = itemgetter("dataset", "question_id")
    own = question(index.entry(number).row)
    return [entry.row for entry in index.entries() if question(entry.row) == own]


def _find_groups(index: RunIndex, wanted: EpisodeFilter) -> list[list[Row]]:
    """Return the episodes of a list in its order: those of a question together, or each by itself."""
    words = wanted.text.casefold().split()
    exact = {name: getattr(wanted, name) for name in ("dataset", "method", "outcome", "correctness")}
    exact = {name: value for name, value in exact.items() if value}
    # Spaces on both sides so that only whole actions match.
    actions = f" {' '.join(wanted.actions.upper().split())} " if wanted.actions.strip() else ""
    together = itemgetter("dataset", "question_id") if wanted.by == "question" else itemgetter("id")
    groups: dict[object, list[Row]] = {}
    for entry in index.entries():
        row = entry.row
        if (
            all(row[name] == value for name, value in exact.items())
            and actions in f" {row['actions']} "
            and all(word in entry.words for word in words)
        ):
            groups.setdefault(together(row), []).append(row)
    name, down = "id" if wanted.order == "file" else wanted.order, wanted.direction == "down"
    placed: list[tuple[Any, list[Row]]] = []
    unknown: list[list[Row]] = []
    for group in groups.values():
        if values := [row[name] for row in group if row[name] is not None]:
            placed.append((max(values) if down else min(values), group))
        else:
            unknown.append(group)
    # Equal ones stay in the order of the file: pages neither repeat nor lose one.
    return [group for _, group in sorted(placed, key=itemgetter(0), reverse=down)] + unknown
