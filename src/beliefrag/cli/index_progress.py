"""How far indexing has come: a bar on a terminal, a line now and then everywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from beliefrag.cli.notices import say
from beliefrag.cli.terminal import is_screen, open_console
from beliefrag.retrieval import IndexProgress, OnProgress

__all__ = ["watching"]

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def watching() -> Iterator[OnProgress]:
    """Gives what to call with each step; standard output is left to the report."""
    if not is_screen(sys.stderr):
        yield _Lines()
        return
    columns = (
        TextColumn("indexing", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files, {task.fields[passages]:,} passages", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=open_console(sys.stderr), transient=True) as progress:
        task = progress.add_task("indexing", total=None, passages=0)
        yield lambda at: progress.update(task, total=at.files_total, completed=at.files_done, passages=at.passages)


class _Lines:
    def __init__(self) -> None:
        self._told = time.monotonic()

    def __call__(self, at: IndexProgress) -> None:
        if time.monotonic() - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            say(f"indexing: {at.files_done:,} of {at.files_total:,} files, {at.passages:,} passages")
