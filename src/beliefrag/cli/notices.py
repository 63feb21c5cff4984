"""Lines on standard error: errors, warnings and, with --debug, everything that the package logs."""

from __future__ import annotations

import contextlib
import logging
import sys

from beliefrag.cli.safe import shown, shown_lines

__all__ = ["debug", "listen", "say"]

_log = logging.getLogger("beliefrag")


def say(line: str) -> None:
    """Writes one line. Looks standard error up each time: a live display takes care that lines appear above it."""
    _write(shown(line))


def listen() -> None:
    """Starts to show warnings. Calling it twice is harmless."""
    if not any(isinstance(handler, _Handler) for handler in _log.handlers):
        _log.addHandler(_Handler())
    _log.setLevel(logging.WARNING)


def debug(wanted: bool) -> bool:
    """The callback of --debug: shows everything that is logged, with tracebacks."""
    if wanted:
        _log.setLevel(logging.DEBUG)
    return wanted


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info:
            _write(shown_lines(logging.Formatter().formatException(record.exc_info)))


def _write(text: str) -> None:
    # With standard error closed there is nobody left to tell.
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
