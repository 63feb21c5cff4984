"""How a command shows an episode: live on a terminal, as plain lines elsewhere, or the answer or JSON alone."""

from __future__ import annotations

import sys
import threading
from typing import TextIO

from beliefrag import events
from beliefrag.cli.episode_run import Display
from beliefrag.cli.episode_words import (
    describe_calibration,
    describe_effect,
    describe_wait,
    explain_end,
    join_rows,
    summary_rows,
)
from beliefrag.cli.output import Heartbeat, is_screen, open_console, print_notice, safe_line
from beliefrag.cli.trace_file import json_line
from beliefrag.engine.assembly import Assembly
from beliefrag.explanation import ACTION_WORDS, describe_belief, describe_reason
from beliefrag.outcome import Abstained, Failed, Stopped
from beliefrag.result import Result
from beliefrag.settings import Settings

__all__ = ["LineDisplay", "choose_display", "print_answer", "print_failure", "print_json"]


def choose_display(
    assembly: Assembly, settings: Settings, *, as_json: bool = False, quiet: bool = False
) -> Display | None:
    """Gives a live display on a terminal, plain lines elsewhere, and nothing with --quiet.

    With --json, standard output is left to the JSON; a person at a terminal still sees what is being waited for.
    """
    if quiet:
        return None
    calibration = describe_calibration(
        assembly.parts.artifact, assembly.parts.calibration_warnings, assembly.promise, method=assembly.method.name
    )
    stream = sys.stderr if as_json else sys.stdout
    if is_screen(stream):
        # Only a terminal needs rich.
        from beliefrag.cli.episode_live import LiveDisplay  # noqa: PLC0415

        threshold = _find_threshold(assembly, settings)
        return LiveDisplay(open_console(stream), calibration=calibration, threshold=threshold, record=not as_json)
    return None if as_json else LineDisplay(stream, calibration=calibration)


def _find_threshold(assembly: Assembly, settings: Settings) -> float:
    """Gives the answerability from which a question counts as answered, whichever rule asks for the most."""
    thresholds = getattr(assembly.method, "thresholds", settings.thresholds)
    return max(thresholds.answer, thresholds.decline_below or 0.0)


def print_json(result: Result) -> None:
    """Prints the result as one JSON object on one line."""
    sys.stdout.write(json_line(result.record()))


def print_answer(result: Result) -> None:
    """Prints the answer alone; that it was declined, or is only the best there is, goes to standard error."""
    if result.answer is not None:
        sys.stdout.write(safe_line(result.answer) + "\n")
    if isinstance(result.outcome, Abstained | Stopped):
        print_notice(f"{result.outcome.name}: {explain_end(result.outcome, result.events).stopped}")
    if result.best_guess is not None:
        print_notice(f"best guess: {result.best_guess} (--best-guess makes it the answer)")


def print_failure(result: Result) -> None:
    """Says on standard error why an episode failed."""
    if isinstance(result.outcome, Failed):
        print_notice(f"error: {result.outcome.error} {result.outcome.remedy}")


class LineDisplay:
    """Writes each event as it happens, one plain line each, without control codes: for pipes, files and logs.

    Args:
        stream: Where to.
        calibration: Which calibration makes the probabilities, in words.
    """

    def __init__(self, stream: TextIO, *, calibration: str) -> None:
        self._stream = stream
        self._calibration = calibration
        self._titles: dict[str, str] = {}
        self._seen: list[events.Event] = []
        self._waiting_for = "working"
        self._lock = threading.Lock()
        self._heartbeat = Heartbeat(lambda seconds: self._write(f"{self._waiting_for}, {seconds:.0f} s"))

    def __enter__(self) -> LineDisplay:
        self._heartbeat.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeat.__exit__()

    def show(self, event: events.Event) -> None:
        """Writes the event, if it matters to a reader."""
        self._seen.append(event)
        match event:
            case events.Started():
                self._write_line("question", event.question.text)
                self._write_line("model", event.model)
                self._write_line("calibration", self._calibration)
            case events.CallStarted():
                self._waiting_for = describe_wait(event.purpose)
                self._heartbeat.note()
            case events.CallFinished():
                self._waiting_for = "working"
                self._heartbeat.note()
            case events.Decided():
                self._write_decision(event)
            case events.Finished():
                for row in summary_rows(event.outcome, self._seen):
                    for value in row.values:
                        self._write_line(row.heading.removesuffix("s") if len(row.values) > 1 else row.heading, value)
            case events.Retrieved() | events.Rewritten() | events.Pruned():
                if isinstance(event, events.Retrieved):
                    self._titles |= {hit.passage.id: hit.passage.title for hit in event.hits}
                self._write_line(f"step {event.step + 1}", join_rows(describe_effect(event, self._titles)))

    def _write_decision(self, event: events.Decided) -> None:
        believed = describe_belief(event.belief, event.answerability)
        reason = describe_reason(event.decision.reason)
        parts = [reason, *([believed] if believed else []), f"{event.tokens:,} tokens so far"]
        self._write_line(f"step {event.step + 1}", f"{ACTION_WORDS[event.decision.action]}: {'; '.join(parts)}")

    def _write_line(self, heading: str, value: str) -> None:
        self._heartbeat.reset()
        self._write(f"{heading}: {safe_line(value)}")

    def _write(self, line: str) -> None:
        with self._lock:
            self._stream.write(f"{line}\n")
            self._stream.flush()
