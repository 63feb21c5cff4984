"""The part of the live display that moves: six beliefs and the answerability as bars, and what is being waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.spinner import Spinner
from rich.text import Text

from beliefrag.cli.safe import shown
from beliefrag.cli.wording import belief_items, waiting_for
from beliefrag.types import Belief

__all__ = ["Gauges"]

_LABEL = 15
_NUMBER = 5
_NOTE = 24
_WORSE_WHEN_HIGH = frozenset({"conflict", "uncertainty", "gap"})


@dataclass(frozen=True, slots=True)
class _Bar:
    label: str
    value: float
    note: str
    style: str
    threshold: float | None = None


class Gauges:
    """What is believed at this moment. Draws itself anew whenever the live display asks.

    Args:
        threshold: The answerability from which an answer is given.
        tokens: The token budget.
    """

    def __init__(self, *, threshold: float, tokens: int) -> None:
        self._threshold = threshold
        self._budget = tokens
        self._belief: Belief | None = None
        self._before: Belief | None = None
        self._answerability: float | None = None
        self._tokens = 0
        self._waiting: str | None = None
        self._since = 0.0
        self._spinner: Spinner | None = None

    def measured(self, belief: Belief | None, answerability: float | None, tokens: int) -> None:
        """Takes in what a step found out."""
        self._before, self._belief = self._belief, belief
        self._answerability = answerability
        self._tokens = tokens

    def spent(self, tokens: int) -> None:
        """Takes in the tokens of one more call."""
        self._tokens += tokens

    def waits(self, purpose: str | None) -> None:
        """Says what is being waited for; None when nothing is."""
        self._waiting = shown(waiting_for(purpose)) if purpose else None
        self._since = time.monotonic()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - _LABEL - _NUMBER - 4
        notes = width >= _NOTE + 16
        length = max(4, min(40, width - _NOTE if notes else width))
        for bar in self._bars():
            yield _line(bar, length, notes=notes, ascii_only=options.ascii_only)
        if self._waiting:
            yield self._wait(options)

    def _bars(self) -> Iterator[_Bar]:
        if self._belief is None:
            return
        before = dict(belief_items(self._before)) if self._before else {}
        for name, value in belief_items(self._belief):
            if name == "cost":
                note = f"{self._tokens:,} of {self._budget:,} tokens"
                yield _Bar(name, min(1.0, self._tokens / self._budget), note, "blue")
                continue
            moved = value - before.get(name, value)
            note = f"{moved:+.2f}" if abs(moved) >= 0.005 else ""
            yield _Bar(name, value, note, "yellow" if name in _WORSE_WHEN_HIGH else "cyan")
        if self._answerability is not None:
            reached = self._answerability >= self._threshold
            note = f"answers from {self._threshold:.2f}"
            yield _Bar("answerability", self._answerability, note, "green" if reached else "magenta", self._threshold)

    def _wait(self, options: ConsoleOptions) -> Text:
        if self._spinner is None:
            self._spinner = Spinner("line" if options.ascii_only else "dots", style="cyan")
        frame = self._spinner.render(time.monotonic())
        text = Text("  ", no_wrap=True, overflow="ellipsis")
        text.append_text(frame if isinstance(frame, Text) else Text("*"))
        return text.append(f" {self._waiting}, {time.monotonic() - self._since:.0f} s", style="dim")


def _line(bar: _Bar, length: int, *, notes: bool, ascii_only: bool) -> Text:
    full, empty, mark = ("=", "-", "|") if ascii_only else ("━", "─", "┃")
    filled = round(bar.value * length)
    line = Text(f"  {bar.label:<{_LABEL}}", no_wrap=True, overflow="ellipsis")

    def stretch(start: int, end: int) -> None:
        lit = max(0, min(filled, end) - start)
        line.append(full * lit, style=bar.style)
        line.append(empty * (end - start - lit), style="bright_black")

    if bar.threshold is None:
        stretch(0, length)
    else:
        at = min(length - 1, round(bar.threshold * length))
        stretch(0, at)
        line.append(mark, style="bold")
        stretch(at + 1, length)
    line.append(f"{bar.value:>{_NUMBER}.2f}")
    return line.append(f"  {bar.note}", style="dim") if notes else line
