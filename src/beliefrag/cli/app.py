"""The program with all its commands. Every error becomes one line and an exit code."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Annotated

import typer

from beliefrag._version import __version__
from beliefrag.cli import bench, calibrate, config, data, model, serve
from beliefrag.cli.ask import ask
from beliefrag.cli.demo import demo
from beliefrag.cli.index import index
from beliefrag.cli.options import flag
from beliefrag.cli.output import FAILED, INTERRUPTED, OK, TERMINATED, USAGE, print_notice, show_warnings
from beliefrag.cli.reproduce import reproduce
from beliefrag.cli.search import search
from beliefrag.cli.view import view
from beliefrag.errors import BeliefRAGError, SettingsError

_log = logging.getLogger("beliefrag.cli")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
app.command()(ask)
app.command()(search)
app.command("app")(serve.ask_page)
app.command()(demo)
app.command()(index)
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(calibrate.app, name="calibrate")
app.command()(calibrate.tune)
app.command()(bench.study)
app.command()(reproduce)
app.add_typer(serve.app, name="serve")
app.command()(view)
app.add_typer(model.cache_app, name="cache")
app.add_typer(model.app, name="model")
app.command()(config.doctor)
app.add_typer(config.app, name="config")
app.command()(config.prompt)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"beliefrag {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[bool, flag("--debug", "Print the log and tracebacks; works with every command.")] = False,
) -> None:
    """Answer questions from documents, say how sure the answer is, and decline when it is not in them.

    Try 'beliefrag demo' first. With your own documents: beliefrag ask "Who approves travel?" --docs handbook/
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 done or answered, 1 failed, 2 wrong usage, 3 abstained."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows a question mark instead of losing the answer.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    typed = list(sys.argv[1:] if arguments is None else arguments)
    show_warnings(debug="--debug" in typed)
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _exit_on_sigterm)
    try:
        code = _run_command([word for word in typed if word != "--debug"])
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        print_notice("interrupted")
    return _flush_output(code)


def _run_command(arguments: list[str]) -> int:
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
        # Without a message, the command needs another word, and its help has been printed.
        if message:
            print_notice(f"error: {message}")
        return failure
    return code if isinstance(code, int) else OK


def _explain_error(error: Exception) -> tuple[str, int]:
    """Return one line that explains an error, and the exit code for it."""
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
    """Flush the output so that a full disk is an error and a closed pipe is silent."""
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
    # The interpreter flushes again when it exits, and would complain.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_on_sigterm(number: int, frame: FrameType | None) -> None:
    # Unwinds like an interrupt so that the terminal is restored and model calls are cancelled.
    raise SystemExit(TERMINATED)
