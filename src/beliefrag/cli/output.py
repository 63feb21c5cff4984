"""Everything that a command prints: safe text, tables on standard output, notices on standard error.

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
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "enable_debug",
    "is_screen",
    "open_console",
    "print_notice",
    "print_table",
    "safe_line",
    "safe_lines",
    "show_status",
    "show_warnings",
]

# rich is imported by the functions that need it, so that `beliefrag --help` and errors do not wait for it.
# ruff: noqa: PLC0415

_log = logging.getLogger("beliefrag")

# Joiners have no power over a terminal, and Persian, Hindi and emoji cannot be spelt without them.
_JOINERS = "\u200c\u200d"
_MARK = "\N{REPLACEMENT CHARACTER}"
_NOT_ASCII_TEXT = re.compile(r"[^ -~]")


def safe_line(text: str) -> str:
    """Gives the text on one line, with nothing in it that a terminal would obey."""
    return " ".join(_mark_controls(text).split())


def safe_lines(text: str) -> str:
    """Gives the text with nothing in it that a terminal would obey, keeping its lines and their indentation."""
    return "\n".join(_mark_controls(line.expandtabs(4)).rstrip() for line in text.splitlines())


def _mark_controls(text: str) -> str:
    return _NOT_ASCII_TEXT.sub(lambda match: _safe_character(match[0]), text)


def _safe_character(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() else _MARK


def is_screen(stream: TextIO) -> bool:
    """Says whether a person watches this stream on a terminal that can redraw; forced colours do not count."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def open_console(stream: TextIO | None = None) -> Console:
    """Gives a console that takes text as text: no markup, no emoji codes, no guessing what to colour."""
    from rich.console import Console

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
        rows: The cells. They may hold any text; it is made safe here.
        style: Gives the style of a cell in the first column.
        fold: Breaks long cells in all columns but the first; otherwise only in the last one.
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
    for place, heading in enumerate(headings[:-1]):
        table.add_column(heading, no_wrap=not fold or place == 0, overflow="fold" if fold else "ellipsis")
    table.add_column(headings[-1], overflow="fold")
    for first, *rest in safe:
        table.add_row(Text(first, style=style(first) if style else ""), *(Text(cell) for cell in rest))
    console.print(table)


@contextlib.contextmanager
def show_status(what: str) -> Iterator[None]:
    """Shows what is going on while the program works: at once on a terminal, elsewhere when it takes long."""
    if not is_screen(sys.stderr):
        from beliefrag.cli.silence import SilenceBreaker

        with SilenceBreaker(lambda seconds: print_notice(f"{what}, {seconds:.0f} s")):
            yield
        return
    with open_console(sys.stderr).status(what):
        yield


def print_notice(line: str) -> None:
    """Writes one line to standard error, which is looked up each time: a live display shows such lines above itself."""
    _write(safe_line(line))


def show_warnings() -> None:
    """Shows the warnings that the package logs. Calling it twice is harmless."""
    if not any(isinstance(handler, _NoticeHandler) for handler in _log.handlers):
        _log.addHandler(_NoticeHandler())
    _log.setLevel(logging.WARNING)


def enable_debug(wanted: bool) -> bool:
    """Shows everything that the package logs, with tracebacks: the callback of --debug."""
    if wanted:
        _log.setLevel(logging.DEBUG)
    return wanted


class _NoticeHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_notice(f"{record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info:
            _write(safe_lines(logging.Formatter().formatException(record.exc_info)))


def _write(text: str) -> None:
    # When standard error is closed, nobody can read the notice.
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
