"""Where the program begins and ends: every error becomes one line and an exit code."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from beliefrag.cli.exit_codes import FAILED, INTERRUPTED, OK, TERMINATED, USAGE
from beliefrag.cli.output import print_notice, show_warnings

__all__ = ["main"]

# Commands are imported when one runs, so that `beliefrag --help` does not wait for them.
# ruff: noqa: PLC0415

_log = logging.getLogger("beliefrag.cli")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: What was typed after `beliefrag`; by default what the process was started with.

    Returns:
        The exit code: 0 done or answered, 1 failed, 2 wrong usage, 3 abstained, 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows a question mark; it is no reason to lose an answer.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    show_warnings()
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _exit_on_sigterm)
    try:
        code = _run_command(arguments)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        print_notice("interrupted")
    return _flush_output(code)


def _run_command(arguments: Sequence[str] | None) -> int:
    if (sys.argv[1:] if arguments is None else list(arguments)) in (["--help"], ["-h"]):
        from beliefrag.cli.root_help import format_root_help

        return _print_help(format_root_help())
    import typer

    from beliefrag.cli.app import app

    try:
        code: object = app(arguments, prog_name="beliefrag", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except BrokenPipeError:
        # The program that read our output has closed the pipe.
        return FAILED
    except Exception as error:
        _log.debug("The error came from here:", exc_info=error)
        message, failure = _explain_error(error)
        # Without a message, it was a command that needs another word, and its help has been printed.
        if message:
            print_notice(f"error: {message}")
        return failure
    return code if isinstance(code, int) else OK


def _print_help(text: str) -> int:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(text)
        return OK
    return FAILED


def _explain_error(error: Exception) -> tuple[str, int]:
    """Gives one line that explains an error, and the exit code for it."""
    import typer

    from beliefrag.errors import BeliefRAGError, SettingsError

    match error:
        case typer.TyperException():
            message = error.format_message().rstrip(".")
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "beliefrag"
            stop = "" if message.endswith("?") else "."
            return (f"{message}{stop} See '{command} --help'." if message else ""), USAGE
        case SettingsError():
            return str(error), USAGE
        case BeliefRAGError():
            return str(error), FAILED
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            return f"{place}{error.strerror or error}.", FAILED
        case _:
            from beliefrag.registry import explain_mistake

            return " ".join(explain_mistake(error)), FAILED


def _flush_output(code: int) -> int:
    """Writes out what is still buffered, so that a full disk is an error and a closed pipe is silent."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        _discard_output()
        if code != FAILED:
            print_notice(f"error: The output cannot be written: {error.strerror}.")
        return FAILED
    return code


def _discard_output() -> None:
    # The interpreter flushes once more on its way out, and would complain.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_on_sigterm(number: int, frame: FrameType | None) -> None:
    # Unwinds like an interrupt, so that the terminal is restored and model calls are cancelled.
    raise SystemExit(TERMINATED)
