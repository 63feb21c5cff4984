"""How far a benchmark run has come: bars with running F1 and tokens on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from beliefrag.bench.plan import Plan
from beliefrag.bench.runner import Watcher
from beliefrag.cli.output import is_screen, open_console, print_notice, safe_line
from beliefrag.methods import METHODS
from beliefrag.runs.episode import EpisodeKey, EpisodeSummary

__all__ = ["watching"]

_SECONDS_BETWEEN_LINES = 15.0


@dataclass(slots=True)
class _Running:
    """Sums over the finished episodes of one dataset and method."""

    total: int = 0
    done: int = 0
    finished: int = 0
    failed: int = 0
    f1: float = 0.0
    scored: int = 0
    tokens: int = 0

    def add(self, episode: EpisodeSummary) -> None:
        self.done += 1
        if not episode.finished:
            self.failed += 1
            return
        self.finished += 1
        self.tokens += episode.usage.tokens
        if (f1 := episode.metrics.get("f1")) is not None:
            self.f1 += f1
            self.scored += 1

    def words(self) -> str:
        f1 = f"F1 {self.f1 / self.scored:.3f}" if self.scored else "F1 -"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{f1}, {self.tokens / max(1, self.finished):,.0f} tokens{failed}"


@contextmanager
def watching(plan: Plan, before: Iterable[EpisodeSummary]) -> Iterator[Watcher]:
    """Gives a watcher that shows on standard error how a run goes; standard output is left to the results.

    Args:
        plan: What is to be done.
        before: Episodes that are there already: they count in what is shown.
    """
    groups: dict[tuple[str, str], _Running] = {}
    for key in (*plan.to_judge, *plan.to_play):
        groups.setdefault((key.dataset, key.method), _Running()).total += 1
    again = {*plan.to_judge, *plan.to_play}
    for episode in before:
        group = groups.get((episode.key.dataset, episode.key.method))
        if group is not None and episode.key not in again:
            group.total += 1
            group.add(episode)
    if not is_screen(sys.stderr):
        yield _Lines(groups, plan)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=open_console(sys.stderr), transient=True) as progress:
        yield _Bars(groups, progress)


class _Bars:
    def __init__(self, groups: dict[tuple[str, str], _Running], progress: Progress) -> None:
        self._groups = groups
        self._progress = progress
        self._tasks: dict[tuple[str, str], TaskID] = {
            (dataset, method): progress.add_task(
                safe_line(f"{dataset} {METHODS.title(method)}"),
                total=group.total,
                completed=group.done,
                words="",
                visible=False,
            )
            for (dataset, method), group in groups.items()
        }

    def ended(self, episode: EpisodeSummary) -> None:
        place = _place(episode.key)
        group = self._groups[place]
        group.add(episode)
        self._progress.update(self._tasks[place], completed=group.done, words=group.words(), visible=True)
        dataset = [each for each in self._groups if each[0] == place[0]]
        # A screen has no room for the bars of all datasets: one that is done makes way for a line each.
        if all(self._groups[each].done >= self._groups[each].total for each in dataset):
            for each in dataset:
                self._progress.update(self._tasks[each], visible=False)
                self._progress.console.print(Text(safe_line(_line(each, self._groups[each]))))


class _Lines:
    def __init__(self, groups: dict[tuple[str, str], _Running], plan: Plan) -> None:
        self._groups = groups
        self._all = plan.left
        self._done = 0
        self._began = self._told = time.monotonic()

    def ended(self, episode: EpisodeSummary) -> None:
        place = _place(episode.key)
        group = self._groups[place]
        group.add(episode)
        self._done += 1
        if time.monotonic() - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            left = (self._told - self._began) / self._done * (self._all - self._done)
            print_notice(
                f"{self._done:,} of {self._all:,} episodes, about {left / 60:.0f} min left; {_line(place, group)}"
            )


def _line(place: tuple[str, str], group: _Running) -> str:
    return f"{place[0]} {METHODS.title(place[1])}: {group.done} of {group.total}, {group.words()}"


def _place(key: EpisodeKey) -> tuple[str, str]:
    return key.dataset, key.method
