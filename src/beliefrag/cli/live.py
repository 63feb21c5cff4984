"""An episode on a terminal: steps scroll by as they are taken, and the belief moves below them."""

from __future__ import annotations

import sys

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from beliefrag import events
from beliefrag.cli.gauges import Gauges
from beliefrag.cli.safe import shown
from beliefrag.cli.wording import Row, belief_items, effect, percent, summary
from beliefrag.types import Action, Belief

__all__ = ["LiveDisplay"]

_ACTIONS = {
    Action.ANSWER: "bold green",
    Action.STOP: "bold yellow",
    Action.ABSTAIN: "bold magenta",
}
_SHORT = {
    "sufficiency": "suff",
    "reliability": "rel",
    "conflict": "conf",
    "uncertainty": "unc",
    "gap": "gap",
    "cost": "cost",
}
_INDENT = 3
_HEADING = 9


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
        self._gauges: Gauges | None = None
        # The live part always vanishes; what stays is printed, so that it stays where nothing can be redrawn, too.
        self._live = Live(
            console=console,
            refresh_per_second=8,
            transient=True,
            # A stream that goes to a file must not be drawn into the display.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
            get_renderable=self._moving,
        )
        self._titles: dict[str, str] = {}
        self._seen: list[events.Event] = []

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def show(self, event: events.Event) -> None:
        """Takes in one event."""
        self._seen.append(event)
        match event:
            case events.Started():
                self._gauges = Gauges(threshold=self._threshold, tokens=event.budget.tokens)
                self._print(_opening(event, self._calibration))
            case events.CallStarted() if self._gauges:
                self._gauges.waits(event.purpose)
            case events.CallFinished() if self._gauges:
                self._gauges.waits(None)
                self._gauges.spent(event.tokens_in + event.tokens_out)
            case events.Decided() if self._gauges:
                self._gauges.measured(event.belief, event.answerability, event.tokens)
                self._print(_step(event))
            case events.Retrieved() | events.Rewritten() | events.Pruned():
                if isinstance(event, events.Retrieved):
                    self._titles |= {hit.passage.id: hit.passage.title for hit in event.hits}
                for row in effect(event, self._titles):
                    self._print(_line(Text(row.heading, style="dim"), ", ".join(row.values)))
            case events.Finished():
                self._stop()
                self._print(_ending(summary(event.outcome, self._seen)))

    def _stop(self) -> None:
        if not self._live.is_started:
            return
        if self._gauges is not None:
            self._gauges.waits(None)
        self._live.stop()
        if self._gauges is not None:
            self._print(self._moving())

    def _moving(self) -> RenderableType:
        return Group(Text(""), self._gauges) if self._gauges is not None else Text("")

    def _print(self, part: RenderableType) -> None:
        if self._record:
            self._console.print(part)


def _opening(event: events.Started, calibration: str) -> RenderableType:
    about = [Text(f"model {shown(event.model)}", style="dim"), Text(f"calibration {shown(calibration)}", style="dim")]
    return Group(Text(shown(event.question.text), style="bold"), *about)


def _step(event: events.Decided) -> RenderableType:
    action = Text(event.decision.action, style=_ACTIONS.get(event.decision.action, "bold cyan"))
    decided = _line(action, event.decision.reason, number=str(event.step + 1))
    believed = [_believed(event.belief, event.answerability)] if event.belief else []
    return Group(Text(""), decided, *believed)


def _believed(belief: Belief, answerability: float | None) -> RenderableType:
    numbers = "  ".join(f"{_SHORT[name]} {value:.2f}".replace(" 0.", " .") for name, value in belief_items(belief))
    text = Text(f"{numbers}   answerable {percent(answerability)}", style="dim")
    return Padding(text, (0, 0, 0, _INDENT))


def _line(heading: Text, text: str, *, number: str = "") -> Table:
    """Text that stays to the right of its heading, however many lines it takes."""
    line = Table.grid()
    line.add_column(width=_INDENT)
    line.add_column(width=_HEADING, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(Text(number), heading, Text(shown(text)))
    return line


def _ending(rows: list[Row]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        style = "bold" if row.heading == "answer" else ""
        values = Text("\n").join(Text(shown(value), style=style) for value in row.values)
        table.add_row(Text(row.heading), values)
    return Padding(table, (1, 0, 0, 0))
