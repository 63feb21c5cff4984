"""Carries out `beliefrag bench run`: prints what is ahead, asks before a large run, shows progress and its result.

Progress goes to standard error: bars with running F1 and tokens on a terminal, a line now and then elsewhere.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from beliefrag import bench
from beliefrag.bench.benchmark import PreparedRun, Run, RunProgress
from beliefrag.bench.plan import Plan
from beliefrag.bench.runner import RunControl
from beliefrag.bench.setup import RunSpec
from beliefrag.cli.output import (
    FAILED,
    INTERRUPTED,
    OK,
    can_confirm,
    is_screen,
    open_console,
    print_notice,
    safe_line,
    show_status,
)
from beliefrag.methods import METHODS
from beliefrag.ray_cluster import check_place
from beliefrag.record import EpisodeSummary
from beliefrag.settings import Settings

__all__ = ["carry_out", "is_confirmed", "run"]

_MANY_CALLS = 1_000
"""From this many model calls on, a person is asked before they are made."""
_SECONDS_BETWEEN_LINES = 15.0


def run(
    settings: Settings,
    spec: RunSpec,
    out: Path,
    *,
    dry_run: bool,
    yes: bool,
    on: str | None = None,
) -> int:
    """Carry out a run after its preview; return the exit code."""
    if on is not None:
        check_place(on)
    with show_status("opening datasets and model"):
        prepared = bench.prepare_run(spec, out=out, settings=settings)
    for line in prepared.describe():
        print_notice(line)
    if dry_run:
        return OK
    if not yes and not is_confirmed(prepared.plan.estimate.calls, replay=spec.replay):
        print_notice("nothing was run")
        return OK
    return carry_out(prepared, on=on)


def is_confirmed(calls: int, *, replay: bool) -> bool:
    """Return whether this many calls may be made. A person at a terminal is asked before a large number."""
    if replay or calls < _MANY_CALLS or not can_confirm():
        return True
    return typer.confirm("Run it?", default=True, err=True)


def carry_out(prepared: PreparedRun, *, on: str | None = None) -> int:
    """Run what is left, report the result, close the models, and return the exit code."""
    control = RunControl()
    with _interrupts(control), _ProgressDisplay() as display:
        found = bench.carry_out(prepared, on=on, progress=display.show, control=control)
    return _print_result(found, prepared.spec)


@contextlib.contextmanager
def _interrupts(control: RunControl) -> Iterator[None]:
    """Let the first Ctrl-C stop the run, and the second one cancel running episodes."""

    def interrupt(*_: object) -> None:
        if control.is_stopping:
            control.cancel()
        else:
            control.stop()
            print_notice("stopping: what is under way will be finished; Ctrl-C again drops it")

    before = None
    # Not in the main thread: Ctrl-C then ends the run at once.
    with contextlib.suppress(ValueError):
        before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _print_result(found: Run, spec: RunSpec) -> int:
    tally = found.tally
    if spec.replay:
        print_notice(f"{found.missing_replies:,} keys are missing from the cache")
    resume = f"go on with: {shlex.join(['beliefrag', *sys.argv[1:]])}"
    if tally.cancelled:
        print_notice(f"dropped what was under way; {resume}")
        return INTERRUPTED
    words = f"{tally.finished:,} episodes finished, {tally.failed:,} failed"
    if tally.unjudged:
        words += f", {tally.unjudged:,} could not be judged"
    if tally.trouble:
        print_notice(f"the latest trouble: {tally.trouble}")
    if tally.stopped:
        left = (found.plan.left if found.plan else 0) - tally.finished - tally.failed
        print_notice(f"{words}, {left:,} left; {resume}")
        return INTERRUPTED
    again = bool(tally.failed or tally.unjudged)
    print_notice(f"{words}; {'the same command tries those again' if again else 'all that was asked for is done'}")
    return FAILED if again else OK


@dataclass(slots=True)
class _Sums:
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

    def describe(self) -> str:
        f1 = f"F1 {self.f1 / self.scored:.3f}" if self.scored else "F1 -"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{f1}, {self.tokens / max(1, self.finished):,.0f} tokens{failed}"


class _ProgressDisplay:
    """Shows on standard error how a run goes; standard output is left to the results."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], _Sums] = {}
        self._bars: Progress | None = None
        self._tasks: dict[tuple[str, str], TaskID] = {}
        self._began = self._last_line = time.monotonic()

    def __enter__(self) -> _ProgressDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, progress: RunProgress) -> None:
        """Takes in how far the run has come."""
        if progress.episode is None:
            self._begin(progress.plan, progress.earlier)
            return
        place = (progress.episode.key.dataset, progress.episode.key.method)
        self._sums[place].add(progress.episode)
        if self._bars is None:
            self._print_line(progress, place)
        else:
            self._move_bar(self._bars, place)

    def _begin(self, plan: Plan, earlier: tuple[EpisodeSummary, ...]) -> None:
        for key in (*plan.to_judge, *plan.to_play):
            self._sums.setdefault((key.dataset, key.method), _Sums()).total += 1
        again = {*plan.to_judge, *plan.to_play}
        for episode in earlier:
            sums = self._sums.get((episode.key.dataset, episode.key.method))
            if sums is not None and episode.key not in again:
                sums.total += 1
                sums.add(episode)
        self._began = self._last_line = time.monotonic()
        if not is_screen(sys.stderr):
            return
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}", markup=False),
            TimeRemainingColumn(),
            console=open_console(sys.stderr),
            transient=True,
        )
        self._bars.start()
        for (dataset, method), sums in self._sums.items():
            self._tasks[dataset, method] = self._bars.add_task(
                safe_line(f"{dataset} {METHODS.title(method)}"),
                total=sums.total,
                completed=sums.done,
                words="",
                visible=False,
            )

    def _move_bar(self, bars: Progress, place: tuple[str, str]) -> None:
        sums = self._sums[place]
        bars.update(self._tasks[place], completed=sums.done, words=sums.describe(), visible=True)
        dataset = [each for each in self._sums if each[0] == place[0]]
        # A screen has no room for the bars of all datasets: one that is done makes way for a line each.
        if all(self._sums[each].done >= self._sums[each].total for each in dataset):
            for each in dataset:
                bars.update(self._tasks[each], visible=False)
                bars.console.print(Text(safe_line(self._describe(each))))

    def _print_line(self, progress: RunProgress, place: tuple[str, str]) -> None:
        now = time.monotonic()
        if now - self._last_line < _SECONDS_BETWEEN_LINES:
            return
        self._last_line = now
        left = (now - self._began) / progress.done * (progress.plan.left - progress.done)
        print_notice(
            f"{progress.done:,} of {progress.plan.left:,} episodes, about {left / 60:.0f} min left; "
            f"{self._describe(place)}"
        )

    def _describe(self, place: tuple[str, str]) -> str:
        sums = self._sums[place]
        return f"{place[0]} {METHODS.title(place[1])}: {sums.done} of {sums.total}, {sums.describe()}"
