"""`beliefrag view`: a run or a trace as pages in a browser; also opens the browser for other commands."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options
from beliefrag.cli.options import argument, option
from beliefrag.cli.output import print_notice, show_status
from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.web.auth import BrowserKey

_Port = Annotated[int, option("N", "The port; 0 takes a free one.", "--port", min=0, max=65535)]

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER")
"""One of these is set where a Linux machine has a screen for a browser."""


def view(
    path: Annotated[Path, argument("RUN|TRACE", "The folder of a run, or a trace file.")],
    further: options.FurtherPaths = None,
    *,
    data: Annotated[
        list[Path] | None, option("DIR...", "The run's datasets.", "--data", envvar="BELIEFRAG_DATA")
    ] = None,
    questions: Annotated[Path | None, option("FILE", "Your own questions, if moved; needs --docs.")] = None,
    docs: Annotated[list[Path] | None, option("PATH...", "The run's documents; needs --questions.")] = None,
    port: _Port = 0,
    no_open: options.NoOpen = False,
) -> None:
    """Look at a run or a trace in a browser: numbers, episodes, and each decision with what it rests on.

    Example: beliefrag view runs/first --data data
    """
    from beliefrag.bench.own_questions import OwnDocuments
    from beliefrag.web.view import ViewServer, open_source

    if further and not (data or docs):
        raise typer.BadParameter(f"{str(further[0])!r} is unexpected", param_hint="RUN|TRACE")
    if (questions is None) != (not docs):
        raise SettingsError("--questions and --docs go together, and one is missing.", remedy="Give both or neither.")
    more = further or []
    # Values after the first one belong to the option that takes several.
    own = OwnDocuments(questions, (*(docs or ()), *more)) if questions is not None else None
    with show_status("reading"):
        source = open_source(path, data or () if own else [*(data or ()), *more], own)
    with ViewServer(source, port) as server:
        open_address("view", server.key, no_open=no_open)
        print_notice("view: the page stays until Ctrl-C.")
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


def open_address(command: str, key: BrowserKey, *, no_open: bool) -> None:
    """Print the address of a page, and open it in a browser unless told not to."""
    print_notice(f"{command}: {key.address}")
    if not no_open and not _open_browser(key.address_once):
        print_notice(f"{command}: no browser was found; open the address yourself.")


def _open_browser(address: str) -> bool:
    import webbrowser

    # Without a screen, a text browser would take over the terminal.
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _SCREENS):
        return False
    return webbrowser.open(address)
