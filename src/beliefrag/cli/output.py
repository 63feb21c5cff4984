"""What a command prints: safe text, tables on standard output, notices and progress on standard error; the exit codes.

Passages, titles, file names and model replies may hold escape sequences that recolour the screen, set its title, hide a
link behind other words or turn the reading direction around. `safe_line` and `safe_lines` make every such character
visible. Text reaches rich as `Text` or through a console without markup, so it is never parsed as markup.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from beliefrag.report.table import Table
    from beliefrag.retrieval import IndexProgress, OnProgress

OK = 0
"""An answer was given, or the command did what it was asked to."""
FAILED = 1
USAGE = 2
"""An option, a setting or a settings file cannot be used."""
ABSTAINED = 3
INTERRUPTED = 130
TERMINATED = 143

_SECONDS_OF_SILENCE = 12.0
"""A line is due every 15 s; a busy machine may be late."""

_log = logging.getLogger("beliefrag")

# Joiners have no power over a terminal, and Persian, Hindi and emoji cannot be spelt without them.
_JOINERS = "\u200c\u200d"
_MARK = "\N{REPLACEMENT CHARACTER}"
_NOT_ASCII_TEXT = re.compile(r"[^ -~]")


def safe_line(text: str) -> str:
    """Return the text on one line, without anything that a terminal would obey."""
    return " ".join(_mark_controls(text).split())


def safe_lines(text: str) -> str:
    """Return the text without anything that a terminal would obey, with its lines and their indentation."""
    return "\n".join(_mark_controls(line.expandtabs(4)).rstrip() for line in text.splitlines())


def _mark_controls(text: str) -> str:
    return _NOT_ASCII_TEXT.sub(lambda match: _safe_character(match[0]), text)


def _safe_character(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() else _MARK


def is_screen(stream: TextIO) -> bool:
    """Return whether this stream is a terminal that can redraw; forced colours do not count."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def open_console(stream: TextIO | None = None) -> Console:
    """Return a console that takes text as text: no markup, no emoji codes, no highlighting."""
    from rich.console import Console

    stream = stream or sys.stdout
    return Console(file=stream, force_terminal=is_screen(stream), markup=False, emoji=False, highlight=False)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    style: Callable[[str], str] | None = None,
) -> None:
    """Print rows, made safe: a table on a terminal, otherwise tab-separated lines that other programs can read.

    On a narrow terminal every column but the first wraps. `style` returns the style of a cell in the first column.
    """
    from rich.table import Table
    from rich.text import Text

    console = open_console()
    safe = [[safe_line(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        for row in (headings, *safe):
            console.file.write("\t".join(row) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings):
        table.add_column(heading, no_wrap=place == 0, overflow="fold")
    for first, *rest in safe:
        table.add_row(Text(first, style=style(first) if style else ""), *(Text(cell) for cell in rest))
    console.print(table)


def print_report(tables: Sequence[Table]) -> None:
    """Print tables under their titles, with an empty line between them."""
    for place, table in enumerate(tables):
        if place:
            sys.stdout.write("\n")
        if table.title:
            sys.stdout.write(f"{table.title}\n")
        print_table(table.headings, table.texts)


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print one line for each heading and its value."""
    for heading, value in facts:
        sys.stdout.write(f"{heading:<12} {safe_line(value)}\n")


def print_notice(line: str) -> None:
    """Write one line to standard error, looked up each time: a live display shows such lines above itself."""
    _write(safe_line(line))


def print_written(files: Iterable[Path], use: str = "") -> None:
    """Write to standard error which files were written, and how to use them."""
    for path in files:
        print_notice(f"written: {path}{use}")


def print_warnings(warnings: Iterable[str]) -> None:
    """Write a line for each warning to standard error."""
    for warning in warnings:
        print_notice(f"warning: {warning}")


def _write(text: str) -> None:
    # Standard error may be closed.
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def show_warnings(*, debug: bool = False) -> None:
    """Show the warnings that the package logs, or with `debug` its whole log. Calling it twice is harmless."""
    if not any(isinstance(handler, _NoticeHandler) for handler in _log.handlers):
        _log.addHandler(_NoticeHandler())
    _log.setLevel(logging.DEBUG if debug else logging.WARNING)


class _NoticeHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_notice(f"{record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info:
            _write(safe_lines(logging.Formatter().formatException(record.exc_info)))


def is_confirmed(question: str) -> bool:
    """Return whether a person at a terminal agrees; without a terminal the answer is yes."""
    import typer

    return not can_confirm() or typer.confirm(question, default=True, err=True)


def can_confirm() -> bool:
    """Return whether a person at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class Heartbeat:
    """Call `write` whenever some time has passed without a line: a working program must not look like a hung one."""

    def __init__(self, write: Callable[[float], None]) -> None:
        self._write = write
        self._seconds = _SECONDS_OF_SILENCE
        self._happened_at = self._written_at = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self.reset()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def reset(self) -> None:
        """Record that something happened and a line was written."""
        self._happened_at = self._written_at = time.monotonic()

    def note(self) -> None:
        """Record that something happened without a line."""
        self._happened_at = time.monotonic()

    def _watch(self) -> None:
        while not self._ended.wait(max(0.0, self._written_at + self._seconds - time.monotonic())):
            now = time.monotonic()
            if now - self._written_at >= self._seconds:
                self._written_at = now
                self._write(now - self._happened_at)


@contextlib.contextmanager
def show_status(what: str) -> Iterator[None]:
    """Show on standard error what the program does."""
    with show_progress(what) as show:
        show(0, None, "")
        yield


@contextlib.contextmanager
def show_progress(what: str) -> Iterator[Callable[[float, float | None, str], None]]:
    """Show on standard error how far something is; yield what to call with the done, the total, and both in words."""
    if not is_screen(sys.stderr):
        latest = what

        def remember(done: float, total: float | None, words: str) -> None:
            nonlocal latest
            latest = f"{what}: {words}" if words else what

        with Heartbeat(lambda seconds: print_notice(f"{latest}, {seconds:.0f} s")):
            yield remember
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    words = TextColumn("{task.fields[words]}", markup=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), words, TimeElapsedColumn())
    with Progress(*columns, console=open_console(sys.stderr), transient=True) as bars:
        task = bars.add_task(what, total=None, words="", visible=False)
        yield lambda done, total, text: bars.update(
            task, completed=done, total=total, words=safe_line(text), visible=True
        )


@contextlib.contextmanager
def show_index_progress() -> Iterator[OnProgress]:
    """Show on standard error how far indexing is."""
    with show_progress("indexing") as show:

        def report(at: IndexProgress) -> None:
            files = f"{at.files_done:,} of {at.files_total:,} files"
            show(at.files_done, at.files_total, f"{files}, {at.passages:,} passages")

        yield report
