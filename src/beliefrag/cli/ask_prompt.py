"""The prompt of `beliefrag ask` without a question: one question after another, with the model kept open."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from beliefrag.cli.ask import NOT_UTF8, is_text, run_episode
from beliefrag.cli.episode import LineDisplay, describe_steps, explain_end, print_answer, print_failure, summary_rows
from beliefrag.cli.live import LiveDisplay
from beliefrag.cli.output import print_notice, safe_line
from beliefrag.engine.assembly import Assembly
from beliefrag.errors import SettingsError
from beliefrag.paths import cache_dir
from beliefrag.result import Result
from beliefrag.types import Question

__all__ = ["AskPrompt", "is_on_terminal"]

_PROMPT = "ask> "
_HISTORY_LINES = 1_000
_EVIDENCE = ("because", "nearest", "also read", "read")
"""The rows of a summary that say what an answer rests on."""
_IGNORED = f"The line is ignored: {NOT_UTF8}."
_HELP = """Type a question, or one of
  /sources   what the last answer rests on, and what else was read
  /why       what was done for the last answer, and why it ended so
  /help      this list
  /quit      end; so does Ctrl-D
Ctrl-C stops a question. The arrow keys bring earlier questions back."""


class AskPrompt:
    """Asks one question after another.

    Args:
        assembly: The opened model, documents and method. The model is closed at the end.
        make_display: Makes the display of one question; it gives None where only the answer is wanted.
    """

    def __init__(self, assembly: Assembly, make_display: Callable[[], LineDisplay | LiveDisplay | None]) -> None:
        self._assembly = assembly
        self._make_display = make_display
        self._last: Result | None = None
        self._commands: dict[str, Callable[[], None]] = {
            "/help": lambda: typer.echo(_HELP),
            "/sources": self._print_sources,
            "/why": self._print_why,
        }

    def run(self) -> None:
        """Reads lines until the end of the input or /quit."""
        typer.echo("Type a question; /help lists the commands.")
        # One event loop for all questions: connections to a model's server belong to the loop that opened them.
        with _keep_history(), asyncio.Runner() as runner:
            try:
                while (line := _read_line()) is not None and line not in ("/quit", "/exit", "/q"):
                    self._take(line, runner)
            finally:
                runner.run(self._assembly.aclose())

    def _take(self, line: str, runner: asyncio.Runner) -> None:
        if not line:
            return
        if not line.startswith("/"):
            self._ask(line, runner)
        elif (command := self._commands.get(line.lower())) is not None:
            command()
        else:
            print_notice(f"There is no command {safe_line(line)!r}; /help lists them.")

    def _ask(self, line: str, runner: asyncio.Runner) -> None:
        display = self._make_display()
        try:
            self._last = runner.run(run_episode(Question(line), self._assembly, display=display, keep_open=True))
        except KeyboardInterrupt:
            print_notice("stopped; /quit or Ctrl-D ends")
            return
        if display is None:
            print_answer(self._last)
        print_failure(self._last)

    def _print_sources(self) -> None:
        if self._last is None:
            print_notice("Nothing was asked yet.")
            return
        for row in summary_rows(self._last.outcome, self._last.events):
            if row.heading in _EVIDENCE:
                typer.echo(f"{row.heading}:")
                for value in row.values:
                    typer.echo(f"  {safe_line(value)}")

    def _print_why(self) -> None:
        if self._last is None:
            print_notice("Nothing was asked yet.")
            return
        for number, step in enumerate(describe_steps(self._last.events), start=1):
            typer.echo(safe_line(f"{number}. {step}"))
        explained = explain_end(self._last.outcome, self._last.events)
        typer.echo(f"It ended as {self._last.outcome.name}: {safe_line(explained.stopped).rstrip('.')}.")
        typer.echo(f"What would change it: {safe_line(explained.would_change).rstrip('.')}.")


def _read_line() -> str | None:
    """Gives what was typed without spaces around it; None at the end of the input.

    A line with bytes that are no text is refused, and the next one is read.
    """
    while True:
        try:
            line = input(_PROMPT).strip()
            if is_text(line):
                return line
            print_notice(_IGNORED)
        except UnicodeDecodeError:
            # Where the terminal's encoding is strict, Python refuses the line itself.
            print_notice(_IGNORED)
        except EOFError:
            typer.echo()
            return None
        except KeyboardInterrupt:
            # A line that was begun is dropped, as in a shell.
            typer.echo()


@contextmanager
def _keep_history() -> Iterator[None]:
    """Lets the arrow keys bring earlier lines back, also those of earlier sessions, where the system can do that."""
    try:
        import readline  # noqa: PLC0415 - Windows has none
    except ImportError:
        yield
        return
    with contextlib.suppress(OSError, SettingsError):
        readline.read_history_file(_history_file())
    try:
        yield
    finally:
        readline.set_history_length(_HISTORY_LINES)
        # A folder that cannot be written is no reason to end badly.
        with contextlib.suppress(OSError, SettingsError):
            file = _history_file()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)
            readline.write_history_file(file)


def _history_file() -> Path:
    return cache_dir() / "asked"


def is_on_terminal() -> bool:
    """Says whether a person can type here and see what is asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()
