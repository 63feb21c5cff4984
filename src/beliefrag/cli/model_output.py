"""How a pull of weights shows itself: a progress bar on a terminal, plain lines everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from beliefrag.cli.output import open_console
from beliefrag.models.weights.catalogue import Weights
from beliefrag.models.weights.download import Watcher

__all__ = ["readable", "watching"]

_STEP = 10
"""Plain output gets a line for each so many percent."""


def readable(size: int) -> str:
    """A size in bytes as a person says it: 1.12 GB, 98 MB."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


@contextmanager
def watching() -> Iterator[Watcher]:
    """Gives a watcher that shows on standard error how a pull goes; standard output is left to the result."""
    console = open_console(sys.stderr)
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bar(console, progress)


class _Lines(Watcher):
    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = 0

    def starting(self, weights: Weights, source: str, done: int) -> None:
        self.note(f"Pulling {weights.name} ({weights.model}, {weights.quantisation})")
        self.note(f"  size     {readable(weights.size)}" + (f", {readable(done)} of it here already" if done else ""))
        self.note(f"  source   {source}")
        self.note(f"  licence  {weights.licence}")
        self._told = 100 * done // weights.size // _STEP

    def progress(self, done: int, total: int) -> None:
        step = 100 * done // total // _STEP
        if step > self._told:
            self._told = step
            self.note(f"{step * _STEP:3} %  {readable(done)} of {readable(total)}")

    def verifying(self) -> None:
        self.note("Verifying the hash")

    def note(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


class _Bar(_Lines):
    def __init__(self, console: Console, progress: Progress) -> None:
        super().__init__(console)
        self._progress = progress
        self._task: TaskID | None = None

    def starting(self, weights: Weights, source: str, done: int) -> None:
        super().starting(weights, source, done)
        if self._task is None:
            self._task = self._progress.add_task("pulling", total=weights.size, completed=done)

    def progress(self, done: int, total: int) -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=done)

    def verifying(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, description="verifying")
