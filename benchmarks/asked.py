"""What the measurements of whole answers share: the model over a set's passages, the order of questions, intervals.

`conversations`, `whole_answers` and `language_answers` ask with it; `answer_tables` makes the tables of their pages.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from beliefrag.engine.loop import play
from beliefrag.opening import assemble, change_policy
from beliefrag.record import Episode
from beliefrag.settings import load_settings
from beliefrag.types import Passage, Question, Turn

Row = dict[str, Any]


class Asker:
    """The embedded model over the passages of a set: as people get it, and with an answer to every question."""

    def __init__(self, folder: Path, style: str = "sentence") -> None:
        common = {"answer_style": style, "threads": 1, "context": 4096}
        lines = read_lines(folder / "corpus.jsonl.gz")
        passages = [Passage(one["id"], one["title"], one["text"]) for one in lines]
        self.passages = {each.id: each for each in passages}
        always = load_settings({**common, "thresholds": {"abstain": False}}).settings
        self.always = assemble(always, passages=passages)
        self.usual = change_policy(self.always, load_settings(common).settings)

    @property
    def model(self) -> str:
        """The identity of the model."""
        return self.always.model.identity

    async def ask(self, question: str, history: Sequence[Turn] = (), *, always: bool = False) -> Episode:
        """Return how a question ends; stop the program where it fails."""
        assembly = self.always if always else self.usual
        episode = await play(Question(question), assembly.method, assembly.harness, history)
        if episode.error is not None:
            raise SystemExit(f"error: {episode.error.message} {episode.error.remedy}")
        return episode

    def find(self, query: str, depth: int) -> list[str]:
        """Return the ids of the first passages of one search."""
        return [hit.passage.id for hit in self.always.harness.retriever.search(query, depth)][:depth]


def read_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a compressed JSON Lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def write_rows(out: Path, model: str, rows: Any, **more: Any) -> None:
    """Write the rows, with the model and the date."""
    content = {"date": datetime.date.today().isoformat(), "model": model, **more, "rows": rows}
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def append_line(file: Path | None, content: Any) -> None:
    """Append a record to a file of JSON Lines, if there is one."""
    if file:
        with file.open("a", encoding="utf-8") as lines:
            print(json.dumps(content), file=lines)


def take_turns(questions: Sequence[Mapping[str, Any]], by: str = "") -> list[Mapping[str, Any]]:
    """Return the questions in a fixed order; those of each kind in turn if a field names the kind."""
    ordered = sorted(questions, key=lambda one: hashlib.sha256(one["id"].encode()).hexdigest())
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in ordered:
        groups.setdefault(str(one.get(by)), []).append(one)
    return [one for each in zip_longest(*(groups[kind] for kind in sorted(groups))) for one in each if one is not None]


def estimate(values: Sequence[float]) -> list[float]:
    """Return the mean and its 95 % bootstrap interval over questions (2,000 resamples, seed 0)."""
    return estimate_share([(value, 1) for value in values])


def estimate_share(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """Return the sum of the first numbers over that of the second ones, with the same interval."""
    values = np.asarray(pairs, dtype=float)
    drawn = values[np.random.default_rng(0).integers(0, len(values), (2_000, len(values)))].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / np.maximum(drawn[:, 1], 1), [0.025, 0.975])
    return [round(float(x), 3) for x in (values[:, 0].sum() / max(values[:, 1].sum(), 1), low, high)]
