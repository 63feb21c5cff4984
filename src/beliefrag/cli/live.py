"""An episode on a terminal: the steps scroll by as they are taken, and bars below them show the current belief."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from beliefrag.cli.ask import describe_wait, step_rows, summary_rows
from beliefrag.cli.output import safe_line, safe_lines
from beliefrag.explanation import ACTION_WORDS, BELIEF_WORDS, describe_belief, describe_reason
from beliefrag.record import AnswerText, CallStarted, Episode, Progress, Step
from beliefrag.types import Action

_LABEL = 15
_NUMBER = 5
_NOTE = 24
_WORSE_WHEN_HIGH = frozenset({"conflict", "uncertainty", "gap"})
_ACTIONS = {Action.ANSWER: "bold green", Action.STOP: "bold yellow", Action.ABSTAIN: "bold magenta"}
_INDENT = 3
_HEADING = 9


class BeliefBars:
    """The belief of the latest step as bars, with what the program waits for; drawn whenever the live display asks."""

    def __init__(self, *, threshold: float, tokens: int) -> None:
        self._threshold = threshold
        self._budget = tokens
        self._belief: dict[str, float] = {}
        self._answerability: float | None = None
        self._tokens = 0
        self._waiting = ""
        self._since = 0.0

    def set_step(self, step: Step) -> None:
        """Show what a step measured."""
        self._belief = asdict(step.belief) if step.belief else {}
        self._answerability = step.answerability
        self.set_tokens(step.tokens + sum(call.tokens_in + call.tokens_out for call in step.calls))

    def set_tokens(self, tokens: int) -> None:
        """Show how many tokens were used."""
        self._tokens = tokens

    def set_wait(self, purpose: str = "") -> None:
        """Show what the program waits for, or nothing."""
        self._waiting = safe_line(describe_wait(purpose)) if purpose else ""
        self._since = time.monotonic()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - _LABEL - _NUMBER - 4
        notes = width >= _NOTE + 16
        length = max(4, min(40, width - _NOTE if notes else width))
        full, empty, mark = ("=", "-", "|") if options.ascii_only else ("━", "─", "┃")
        for name, value, note, style in self._bars():
            filled = round(value * length)
            cells = full * filled + empty * (length - filled)
            if name == "answerability":
                at = min(length - 1, round(self._threshold * length))
                cells = cells[:at] + mark + cells[at + 1 :]
            line = Text(f"  {BELIEF_WORDS[name]:<{_LABEL}}", no_wrap=True, overflow="ellipsis")
            line.append(cells[:filled], style=style).append(cells[filled:], style="bright_black")
            line.append(f"{value:>{_NUMBER}.2f}")
            yield line.append(f"  {note}", style="dim") if notes else line
        if self._waiting:
            waited = f"  {self._waiting}, {time.monotonic() - self._since:.0f} s"
            yield Text(waited, style="dim", no_wrap=True, overflow="ellipsis")

    def _bars(self) -> Iterator[tuple[str, float, str, str]]:
        """Yield the name, value, note and style of each bar."""
        for name, value in self._belief.items():
            if name == "cost":
                note = f"{self._tokens:,} of {self._budget:,} tokens"
                yield name, min(1.0, self._tokens / self._budget), note, "blue"
                continue
            yield name, value, "", "yellow" if name in _WORSE_WHEN_HIGH else "cyan"
        if self._belief and self._answerability is not None:
            style = "green" if self._answerability >= self._threshold else "magenta"
            yield "answerability", self._answerability, f"answers from {self._threshold:.2f}", style


class LiveDisplay:
    """Shows an episode while it runs; without `record`, it vanishes when the episode ends."""

    def __init__(self, console: Console, *, calibration: str, threshold: float, record: bool = True) -> None:
        self._console = console
        self._calibration = calibration
        self._threshold = threshold
        self._record = record
        self._bars = BeliefBars(threshold=threshold, tokens=1)
        self._titles: dict[str, str] = {}
        self._answer = ""
        # The live part always vanishes; what stays is printed so that it stays where nothing can be redrawn, too.
        self._live = Live(
            console=console,
            refresh_per_second=8,
            transient=True,
            # A stream that goes to a file must not be drawn into the display.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
            get_renderable=self._draw_bars,
        )

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def show(self, progress: Progress) -> None:
        """Show what the loop yields."""
        match progress:
            case CallStarted():
                self._bars.set_wait(progress.purpose)
            case AnswerText():
                self._answer = self._answer[: progress.at] + progress.text
            case Step():
                self._bars.set_wait()
                self._bars.set_step(progress)
                self._titles |= {name: passage.title for name, passage in progress.passages.items()}
                self._print(_step_lines(progress))
                for heading, (value,) in step_rows(progress, self._titles):
                    self._print(_text_line(Text(heading, style="dim"), value))
            case Episode(outcome=None):
                if progress.budget:
                    self._bars = BeliefBars(threshold=self._threshold, tokens=progress.budget.tokens)
                about = (f"model {progress.model}", f"calibration {self._calibration}")
                self._print(Text(safe_line(progress.question.text), style="bold"))
                if progress.standalone:
                    self._print(Text(safe_line(f"understood as: {progress.standalone}"), style="dim"))
                self._print(Group(*(Text(safe_line(each), style="dim") for each in about)))
            case Episode():
                self._bars.set_tokens(progress.usage.tokens)
                self._stop()
                self._print(_ending(progress))

    def _stop(self) -> None:
        if self._live.is_started:
            self._bars.set_wait()
            self._answer = ""
            self._live.stop()
            self._print(self._draw_bars())

    def _draw_bars(self) -> RenderableType:
        answer = [Text(safe_lines(self._answer), style="bold"), Text("")] if self._answer else []
        return Group(Text(""), *answer, self._bars)

    def _print(self, part: RenderableType) -> None:
        if self._record:
            self._console.print(part)


def _step_lines(step: Step) -> RenderableType:
    action = Text(ACTION_WORDS[step.action], style=_ACTIONS.get(step.action, "bold cyan"))
    decided = _text_line(action, describe_reason(step.reason, step.comparisons), number=str(step.number + 1))
    believed = describe_belief(step.belief, step.answerability)
    belief = [Padding(Text(believed, style="dim"), (0, 0, 0, _INDENT))] if believed else []
    return Group(Text(""), decided, *belief)


def _text_line(heading: Text, text: str, *, number: str = "") -> Table:
    """Return text that stays to the right of its heading, however many lines it takes."""
    line = Table.grid()
    line.add_column(width=_INDENT)
    line.add_column(width=_HEADING, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(Text(number), heading, Text(safe_line(text)))
    return line


def _ending(episode: Episode) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for heading, values in summary_rows(episode):
        style = "bold" if heading == "answer" else ""
        table.add_row(Text(heading), Text("\n").join(Text(safe_line(value), style=style) for value in values))
    return Padding(table, (1, 0, 0, 0))
