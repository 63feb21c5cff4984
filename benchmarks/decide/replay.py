"""Make committed episodes again from committed replies, without a model, and report whether they are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from beliefrag.runs.partitions import sample
from benchmarks.decide.episodes import EpisodeRow, read_run_rows
from benchmarks.decide.runs import RUNS, make_run

__all__ = ["ReplayStep", "compare_rows", "plan_replay", "replay_rows", "take_first"]

_COMPARED = ("outcome", "actions", "f1", "tokens")
_TOLERANCE = 1e-5
"""Scores are written with six digits."""


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """A part of a run that is made at once: the first n questions of some sets, with some methods."""

    run: str
    n: int
    methods: tuple[str, ...]
    datasets: tuple[str, ...]


class _Question(NamedTuple):
    id: str


def take_first(rows: Sequence[EpisodeRow], n: int) -> list[EpisodeRow]:
    """Return the episodes on the first n questions of each set: those that a shorter run would have."""
    questions: dict[str, set[_Question]] = {}
    for row in rows:
        questions.setdefault(row.dataset, set()).add(_Question(row.question))
    first = {dataset: {each.id for each in sample([*own], n)} for dataset, own in questions.items()}
    return [row for row in rows if row.question in first[row.dataset]]


def plan_replay(rows: Iterable[EpisodeRow]) -> list[ReplayStep]:
    """Return the steps in which runs grow to the episodes that a table has.

    A method may have more questions of one set than of another, and more than another method. The questions of a set
    are always the first n of one order, so their number says which they are.
    """
    counts = Counter((row.run, row.dataset, row.method) for row in rows)
    methods: dict[tuple[str, int, str], list[str]] = {}
    for (run, dataset, method), n in sorted(counts.items()):
        methods.setdefault((run, n, dataset), []).append(method)
    datasets: dict[tuple[str, int, tuple[str, ...]], list[str]] = {}
    for (run, n, dataset), names in methods.items():
        datasets.setdefault((run, n, tuple(names)), []).append(dataset)
    return [ReplayStep(run, n, names, tuple(sets)) for (run, n, names), sets in sorted(datasets.items())]


def replay_rows(rows: Sequence[EpisodeRow], out: Path) -> list[EpisodeRow]:
    """Make the episodes that a table has from the replies in the cache, and return them as rows."""
    steps = plan_replay(rows)
    for step in steps:
        print(f"{step.run}: {', '.join(step.methods)}, {step.n} questions of {', '.join(step.datasets)}", flush=True)
        make_run(RUNS[step.run], step.n, out, datasets=step.datasets, methods=step.methods, replay=True)
    return [row for name in dict.fromkeys(step.run for step in steps) for row in read_run_rows(out / name)]


def compare_rows(committed: Sequence[EpisodeRow], replayed: Sequence[EpisodeRow]) -> Iterator[str]:
    """Yield a line for each committed episode that was not made again as it is."""
    found = {row.key: row for row in replayed}
    for row in committed:
        again = found.get(row.key)
        name = " ".join(row.key)
        if again is None:
            yield f"{name}: missing in the replay"
        elif differing := [field for field in _COMPARED if not _is_same(getattr(row, field), getattr(again, field))]:
            changes = (f"{field} {getattr(row, field)} is now {getattr(again, field)}" for field in differing)
            yield f"{name}: {', '.join(changes)}"


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _TOLERANCE
    return one == other
