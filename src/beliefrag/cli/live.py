"""An episode on a terminal: what it waits for and the answer while it is written, then the lines that stay."""

from __future__ import annotations

import sys
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from beliefrag.cli.ask import MARGIN, Line, begin_lines, describe_wait, end_lines, step_lines
from beliefrag.cli.output import safe_line, safe_lines
from beliefrag.record import AnswerText, CallStarted, Episode, Progress, Step


class LiveDisplay:
    """Shows an episode while it runs, on request with its steps; without `record`, it vanishes at the end."""

    def __init__(self, console: Console, *, calibration: str, steps: bool = False, record: bool = True) -> None:
        self._console = console
        self._calibration = calibration
        self._steps = steps
        self._record = record
        self._titles: dict[str, str] = {}
        self._waiting = ""
        self._since = 0.0
        self._answer = ""
        # The live part always vanishes; what stays is printed so that it stays where nothing can be redrawn, too.
        self._live = Live(
            console=console,
            refresh_per_second=8,
            transient=True,
            # A stream that goes to a file must not be drawn into the display.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
            get_renderable=self._draw,
        )

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, progress: Progress) -> None:
        """Show what the loop yields."""
        match progress:
            case CallStarted():
                self._waiting, self._since = safe_line(describe_wait(progress.purpose)), time.monotonic()
            case AnswerText():
                self._answer = self._answer[: progress.at] + progress.text
            case Step():
                self._waiting = ""
                self._titles |= {name: passage.title for name, passage in progress.passages.items()}
                if self._steps:
                    self._print(*step_lines(progress, self._titles))
            case Episode(outcome=None):
                self._print(*begin_lines(progress, self._calibration, steps=self._steps))
            case Episode():
                self._waiting = self._answer = ""
                self._live.stop()
                self._print(*end_lines(progress, steps=self._steps))

    def _draw(self) -> RenderableType:
        waited = f"  {self._waiting}, {time.monotonic() - self._since:.0f} s" if self._waiting else ""
        waiting = Text(waited, style="dim", no_wrap=True, overflow="ellipsis")
        return Group(Text(safe_lines(self._answer), style="bold"), waiting) if self._answer else waiting

    def _print(self, *lines: Line) -> None:
        for line in lines if self._record else ():
            self._console.print(_draw_line(line))


def _draw_line(line: Line) -> RenderableType:
    """Return a line of text that stays to the right of its mark, however many lines it takes."""
    text = Text(safe_line(line.text), style=line.style, overflow="fold")
    if not line.mark:
        return text
    table = Table.grid()
    table.add_column(width=MARGIN)
    table.add_column(overflow="fold")
    table.add_row(Text(line.mark), text)
    return table
