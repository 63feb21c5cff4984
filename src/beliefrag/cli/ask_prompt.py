"""The prompt of `beliefrag ask` without a question: one question after another, with the model kept open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from beliefrag.answering.conversation import add_turn
from beliefrag.cli import ask
from beliefrag.cli.live import LiveDisplay
from beliefrag.cli.output import print_notice, safe_line
from beliefrag.errors import BeliefRAGError
from beliefrag.opening import Assembly, reopen_passages
from beliefrag.record import Episode
from beliefrag.types import Question, Turn

_HELP = """Type a question, or one of
  /sources   what the last answer rests on, and what else was read
  /why       what was done for the last answer, and why it ended so
  /clear     forget the questions so far: the next one refers to none of them
  /where F   search only what the filter F describes (type=pdf and year>=2024) from now on; without F, everything
  /help      this list
  /quit      end; so does Ctrl-D
Ctrl-C stops a question. The arrow keys bring earlier questions back."""


class AskPrompt:
    """Asks one question after another, and closes the model at the end."""

    def __init__(
        self,
        assembly: Assembly,
        make_display: Callable[[], ask.LineDisplay | LiveDisplay | None],
        docs: Sequence[Path] | None = None,
    ) -> None:
        self._assembly = assembly
        self._docs = docs
        self._make_display = make_display
        self._last: Episode | None = None
        self._turns: tuple[Turn, ...] = ()
        self._where = ""

    def run(self) -> None:
        """Read lines until the end of the input or /quit."""
        typer.echo("Type a question; /help lists the commands.")
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - lets the arrow keys bring earlier questions back; Windows has none
        # One event loop for all questions: connections to a model's server belong to the loop that opened them.
        with asyncio.Runner() as runner:
            try:
                while (line := _read_line()) is not None and line not in ("/quit", "/exit", "/q"):
                    self._take(line, runner)
            finally:
                runner.run(self._assembly.aclose())

    def _take(self, line: str, runner: asyncio.Runner) -> None:
        if not line.startswith("/"):
            if line:
                self._ask(line, runner)
        elif line.lower() == "/help":
            typer.echo(_HELP)
        elif line.lower() == "/clear":
            self._turns = ()
        elif line.partition(" ")[0].lower() == "/where":
            self._where = line.partition(" ")[2].strip()
        elif line.lower() not in ("/sources", "/why"):
            print_notice(f"unknown command {safe_line(line)!r}; /help lists them")
        elif self._last is None:
            print_notice("Nothing was asked yet.")
        elif line.lower() == "/why":
            _print_why(self._last)
        else:
            for each in (*ask.quote_lines(self._last), *ask.read_lines(self._last)):
                typer.echo(str(each))

    def _ask(self, line: str, runner: asyncio.Runner) -> None:
        display = self._make_display()
        try:
            if self._docs and isinstance(now := reopen_passages(self._assembly, docs=self._docs), Assembly):
                self._assembly = now
            limited = self._assembly.limit(self._where)
            episode = runner.run(
                ask.run_episode(Question(line), limited, display=display, keep_open=True, history=self._turns)
            )
        except KeyboardInterrupt:
            print_notice("stopped; /quit or Ctrl-D ends")
            return
        except BeliefRAGError as error:
            print_notice(f"error: {error.message} {error.remedy}")
            return
        self._last = episode
        self._turns = add_turn(self._turns, episode)
        if display is None:
            ask.print_answer(episode)
        ask.print_failure(episode)
        ask.print_notes(episode, self._assembly)


def _print_why(episode: Episode) -> None:
    titles = {name: passage.title for name, passage in episode.passages.items()}
    steps = (line for step in episode.steps for line in ask.step_lines(step, titles))
    for line in (*steps, *ask.why_lines(episode)):
        typer.echo(str(line))


def _read_line() -> str | None:
    """Return the next line that is valid text, without spaces around it; None at the end of the input."""
    while True:
        try:
            line = input("ask> ").strip()
            if ask.is_text(line):
                return line
            print_notice(f"The line is ignored: {ask.NOT_UTF8}.")
        except UnicodeDecodeError:
            # If the terminal's encoding is strict, Python refuses the line itself.
            print_notice(f"The line is ignored: {ask.NOT_UTF8}.")
        except EOFError:
            typer.echo()
            return None
        except KeyboardInterrupt:
            # A line that was begun is dropped, as in a shell.
            typer.echo()
