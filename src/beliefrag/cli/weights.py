"""Downloads the embedded model's weights for a command: asks a person first, and shows the progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from beliefrag.cli.output import can_confirm, open_console
from beliefrag.errors import ModelError
from beliefrag.models.download import DownloadProgress, describe_sources, pull
from beliefrag.models.weights import CATALOGUE, DEFAULT, Weights, is_present

__all__ = ["ensure_weights", "format_size", "show_progress"]

_LOCAL = "local:"
_PERCENT_STEP = 10
"""Plain output has one line for each step of this many percent."""


def ensure_weights(model: str, *, agreed: bool) -> None:
    """Downloads the weights of a known embedded model if they are not here.

    Does nothing for any other model: an endpoint, a script, a user's own file.

    Args:
        model: As in the settings.
        agreed: Download without asking.

    Raises:
        ModelError: The weights are not here, and nobody can be asked or the answer was no; or the download failed.
    """
    name = model.removeprefix(_LOCAL) or DEFAULT
    weights = next((each for each in CATALOGUE if each.name == name), None)
    if not model.startswith(_LOCAL) or weights is None or is_present(weights):
        return
    if not agreed:
        _ask_permission(weights)
    with show_progress() as progress:
        pull(weights.name, progress=progress)


def format_size(size: int) -> str:
    """Gives a size in bytes as a person says it: 1.12 GB, 98 MB."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


@contextmanager
def show_progress() -> Iterator[DownloadProgress]:
    """Shows a download on standard error: as a bar on a terminal, as plain lines elsewhere."""
    console = open_console(sys.stderr)
    if not console.is_terminal:
        yield _PlainLines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield _ProgressBar(console, bar)


class _PlainLines(DownloadProgress):
    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_step = 0

    def on_start(self, weights: Weights, source: str, done: int) -> None:
        already = f", {format_size(done)} of it here already" if done else ""
        self.on_message(f"Pulling {weights.name} ({weights.model})")
        self.on_message(f"  size     {format_size(weights.size)}{already}")
        self.on_message(f"  source   {source}")
        self.on_message(f"  licence  {weights.licence}")
        self._last_step = 100 * done // weights.size // _PERCENT_STEP

    def on_bytes(self, done: int, total: int) -> None:
        step = 100 * done // total // _PERCENT_STEP
        if step > self._last_step:
            self._last_step = step
            self.on_message(f"{step * _PERCENT_STEP:3} %  {format_size(done)} of {format_size(total)}")

    def on_message(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


class _ProgressBar(_PlainLines):
    def __init__(self, console: Console, bar: Progress) -> None:
        super().__init__(console)
        self._bar = bar
        self._task: TaskID | None = None

    def on_start(self, weights: Weights, source: str, done: int) -> None:
        super().on_start(weights, source, done)
        if self._task is None:
            self._task = self._bar.add_task("pulling", total=weights.size, completed=done)
        else:
            self._bar.update(self._task, description="pulling", total=weights.size, completed=done)

    def on_bytes(self, done: int, total: int) -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=done)


def _ask_permission(weights: Weights) -> None:
    lines = [
        f"The weights of {weights.name} are not on this machine yet.",
        f"  what     {weights.model}",
        f"  size     {format_size(weights.size)}",
        f"  licence  {weights.licence}",
    ]
    for number, source in enumerate(describe_sources(weights).values()):
        lines.append(f"  {'or else' if number else 'source '}  {source}")
    typer.echo("\n".join(lines), err=True)
    if can_confirm() and typer.confirm("Download them now?", default=True, err=True):
        return
    raise ModelError(
        f"The weights of {weights.name} are needed and are not on this machine.",
        remedy=f"Get them with 'beliefrag model pull {weights.name}' or 'beliefrag demo --yes', "
        "or name another model with --model.",
    )
