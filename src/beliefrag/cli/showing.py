"""Chooses how a command shows an episode, and says what it came to."""

from __future__ import annotations

import sys

from beliefrag.cli.episode import Display
from beliefrag.cli.lines import LineDisplay
from beliefrag.cli.live import LiveDisplay
from beliefrag.cli.notices import say
from beliefrag.cli.safe import shown
from beliefrag.cli.terminal import is_screen, open_console
from beliefrag.cli.trace import json_line
from beliefrag.cli.wording import calibration_words
from beliefrag.engine.assembly import Assembly
from beliefrag.outcome import Abstained, Failed, Stopped
from beliefrag.result import Result
from beliefrag.settings import Settings

__all__ = ["choose_display", "print_answer", "print_json", "tell_failure"]


def choose_display(
    assembly: Assembly, settings: Settings, *, as_json: bool = False, quiet: bool = False
) -> Display | None:
    """A live display on a terminal, plain lines elsewhere, nothing with --quiet.

    With --json, standard output is left to the JSON; a person at a terminal still sees what is being waited for.
    """
    if quiet:
        return None
    calibration = calibration_words(assembly.artifact, assembly.doubts, assembly.promise)
    threshold = settings.thresholds.answer
    stream = sys.stderr if as_json else sys.stdout
    if is_screen(stream):
        return LiveDisplay(open_console(stream), calibration=calibration, threshold=threshold, record=not as_json)
    return None if as_json else LineDisplay(stream, calibration=calibration, threshold=threshold)


def print_json(result: Result) -> None:
    """Prints the result as one JSON object on one line."""
    sys.stdout.write(json_line(result.record()))


def print_answer(result: Result) -> None:
    """Prints the answer alone; that it was declined, or is only the best there is, goes to standard error."""
    if result.answer is not None:
        sys.stdout.write(shown(result.answer) + "\n")
    if isinstance(result.outcome, Abstained | Stopped):
        say(f"{result.outcome.name}: {result.reason}")


def tell_failure(result: Result) -> None:
    """Says on standard error why an episode failed."""
    if isinstance(result.outcome, Failed):
        say(f"error: {result.outcome.error} {result.outcome.remedy}")
