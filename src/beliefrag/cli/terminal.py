"""Where output goes: a console for people at a terminal, plain text for everything else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from beliefrag.cli.safe import shown

__all__ = ["is_screen", "open_console", "print_table"]


def is_screen(stream: TextIO) -> bool:
    """Whether a person watches this stream on a terminal that can redraw. Variables that force colours do not count."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def open_console(stream: TextIO | None = None) -> Console:
    """A console that takes text as text: no markup, no emoji codes, no guessing what to colour."""
    stream = stream or sys.stdout
    return Console(file=stream, force_terminal=is_screen(stream), markup=False, emoji=False, highlight=False)


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    style: Callable[[str], str] | None = None,
    fold: bool = False,
) -> None:
    """Prints rows: a table on a terminal, otherwise tab-separated lines that other programs can read.

    Args:
        headings: One for each column.
        rows: The cells, as text that need not be safe.
        style: Gives the style of a cell in the first column.
        fold: Breaks long cells in all columns but the first, and not in the last alone.
    """
    console = open_console()
    safe = [[shown(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        for row in (headings, *safe):
            console.file.write("\t".join(row) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings[:-1]):
        table.add_column(heading, no_wrap=not fold or place == 0, overflow="fold" if fold else "ellipsis")
    table.add_column(headings[-1], overflow="fold")
    for first, *rest in safe:
        table.add_row(Text(first, style=style(first) if style else ""), *(Text(cell) for cell in rest))
    console.print(table)
