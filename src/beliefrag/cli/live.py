"""An episode on a terminal: the steps scroll by as they are taken, and bars below them show the current belief."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from beliefrag import events
from beliefrag.cli.episode import Row, belief_items, describe_effect, describe_wait, summary_rows
from beliefrag.cli.output import safe_line
from beliefrag.explanation import ACTION_WORDS, BELIEF_WORDS, describe_belief, describe_reason
from beliefrag.types import Action, Belief

__all__ = ["BeliefBars", "LiveDisplay"]

_LABEL = 15
_NUMBER = 5
_NOTE = 24
_WORSE_WHEN_HIGH = frozenset({"conflict", "uncertainty", "gap"})


_ACTIONS = {Action.ANSWER: "bold green", Action.STOP: "bold yellow", Action.ABSTAIN: "bold magenta"}
_INDENT = 3
_HEADING = 9


@dataclass(frozen=True, slots=True)
class _Bar:
    label: str
    value: float
    note: str
    style: str
    threshold: float | None = None


class BeliefBars:
    """The belief of this moment as bars, with what the program waits for. It draws itself when the live display asks.

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

    def set_belief(self, belief: Belief | None, answerability: float | None, tokens: int) -> None:
        """Shows what a step measured."""
        self._before, self._belief = self._belief, belief
        self._answerability = answerability
        self._tokens = tokens

    def add_tokens(self, tokens: int) -> None:
        """Counts the tokens of one more call."""
        self._tokens += tokens

    def set_wait(self, purpose: str | None) -> None:
        """Shows what the program waits for; None when it waits for nothing."""
        self._waiting = safe_line(describe_wait(purpose)) if purpose else None
        self._since = time.monotonic()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - _LABEL - _NUMBER - 4
        notes = width >= _NOTE + 16
        length = max(4, min(40, width - _NOTE if notes else width))
        for bar in self._bars():
            yield _bar_line(bar, length, notes=notes, ascii_only=options.ascii_only)
        if self._waiting:
            yield self._wait(options)

    def _bars(self) -> Iterator[_Bar]:
        if self._belief is None:
            return
        before = dict(belief_items(self._before)) if self._before else {}
        for name, value in belief_items(self._belief):
            if name == "cost":
                note = f"{self._tokens:,} of {self._budget:,} tokens"
                yield _Bar(BELIEF_WORDS[name], min(1.0, self._tokens / self._budget), note, "blue")
                continue
            moved = value - before.get(name, value)
            note = f"{moved:+.2f}" if abs(moved) >= 0.005 else ""
            yield _Bar(BELIEF_WORDS[name], value, note, "yellow" if name in _WORSE_WHEN_HIGH else "cyan")
        if self._answerability is not None:
            reached = self._answerability >= self._threshold
            note = f"answers from {self._threshold:.2f}"
            yield _Bar(
                BELIEF_WORDS["answerability"],
                self._answerability,
                note,
                "green" if reached else "magenta",
                self._threshold,
            )

    def _wait(self, options: ConsoleOptions) -> Text:
        if self._spinner is None:
            self._spinner = Spinner("line" if options.ascii_only else "dots", style="cyan")
        frame = self._spinner.render(time.monotonic())
        text = Text("  ", no_wrap=True, overflow="ellipsis")
        text.append_text(frame if isinstance(frame, Text) else Text("*"))
        return text.append(f" {self._waiting}, {time.monotonic() - self._since:.0f} s", style="dim")


def _bar_line(bar: _Bar, length: int, *, notes: bool, ascii_only: bool) -> Text:
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


class LiveDisplay:
    """Shows an episode while it runs, and leaves a record of it behind.

    Args:
        console: The terminal.
        calibration: Which calibration makes the probabilities, in words.
        threshold: The answerability from which an answer is given.
        record: Whether to leave something behind; without, the display vanishes when the episode ends.
    """

    def __init__(self, console: Console, *, calibration: str, threshold: float, record: bool = True) -> None:
        self._console = console
        self._calibration = calibration
        self._threshold = threshold
        self._record = record
        self._bars: BeliefBars | None = None
        # The live part always vanishes; what stays is printed, so that it stays where nothing can be redrawn, too.
        self._live = Live(
            console=console,
            refresh_per_second=8,
            transient=True,
            # A stream that goes to a file must not be drawn into the display.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
            get_renderable=self._draw_bars,
        )
        self._titles: dict[str, str] = {}
        self._seen: list[events.Event] = []

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def show(self, event: events.Event) -> None:
        """Shows one event."""
        self._seen.append(event)
        match event:
            case events.Started():
                self._bars = BeliefBars(threshold=self._threshold, tokens=event.budget.tokens)
                self._print(_opening_lines(event, self._calibration))
            case events.CallStarted() if self._bars:
                self._bars.set_wait(event.purpose)
            case events.CallFinished() if self._bars:
                self._bars.set_wait(None)
                self._bars.add_tokens(event.tokens_in + event.tokens_out)
            case events.Decided() if self._bars:
                self._bars.set_belief(event.belief, event.answerability, event.tokens)
                self._print(_step_lines(event))
            case events.Retrieved() | events.Rewritten() | events.Pruned():
                if isinstance(event, events.Retrieved):
                    self._titles |= {hit.passage.id: hit.passage.title for hit in event.hits}
                for row in describe_effect(event, self._titles):
                    self._print(_text_line(Text(row.heading, style="dim"), ", ".join(row.values)))
            case events.Finished():
                self._stop()
                self._print(_ending_rows(summary_rows(event.outcome, self._seen)))

    def _stop(self) -> None:
        if not self._live.is_started:
            return
        if self._bars is not None:
            self._bars.set_wait(None)
        self._live.stop()
        if self._bars is not None:
            self._print(self._draw_bars())

    def _draw_bars(self) -> RenderableType:
        return Group(Text(""), self._bars) if self._bars is not None else Text("")

    def _print(self, part: RenderableType) -> None:
        if self._record:
            self._console.print(part)


def _opening_lines(event: events.Started, calibration: str) -> RenderableType:
    about = [
        Text(f"model {safe_line(event.model)}", style="dim"),
        Text(f"calibration {safe_line(calibration)}", style="dim"),
    ]
    return Group(Text(safe_line(event.question.text), style="bold"), *about)


def _step_lines(event: events.Decided) -> RenderableType:
    action = Text(ACTION_WORDS[event.decision.action], style=_ACTIONS.get(event.decision.action, "bold cyan"))
    decided = _text_line(action, describe_reason(event.decision.reason), number=str(event.step + 1))
    believed = describe_belief(event.belief, event.answerability)
    belief = [Padding(Text(believed, style="dim"), (0, 0, 0, _INDENT))] if believed else []
    return Group(Text(""), decided, *belief)


def _text_line(heading: Text, text: str, *, number: str = "") -> Table:
    """Text that stays to the right of its heading, however many lines it takes."""
    line = Table.grid()
    line.add_column(width=_INDENT)
    line.add_column(width=_HEADING, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(Text(number), heading, Text(safe_line(text)))
    return line


def _ending_rows(rows: list[Row]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        style = "bold" if row.heading == "answer" else ""
        values = Text("\n").join(Text(safe_line(value), style=style) for value in row.values)
        table.add_row(Text(row.heading), values)
    return Padding(table, (1, 0, 0, 0))
