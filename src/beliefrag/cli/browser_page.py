"""Keeps a page open for a person: starts the server, opens the browser, waits for Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import webbrowser
from collections.abc import Iterator
from dataclasses import asdict
from types import TracebackType

from beliefrag.cli.episode_run import Display
from beliefrag.cli.output import print_notice
from beliefrag.engine.assembly import Assembly
from beliefrag.events import Event
from beliefrag.web.view import LiveSource, ViewServer, active_thresholds

__all__ = ["DisplayWithPage", "open_address", "serve_live_page", "show_page", "wait_for_interrupt"]

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER")
"""One of these says that a Linux machine has a screen for a browser, or which browser to take."""


class DisplayWithPage:
    """A display that a browser page watches too.

    Args:
        display: What shows the episode on the terminal, if anything does.
        source: What the page reads.
    """

    def __init__(self, display: Display | None, source: LiveSource) -> None:
        self._display = display
        self._source = source

    def __enter__(self) -> DisplayWithPage:
        if self._display is not None:
            self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is not None:
            self._display.__exit__(kind, error, trace)

    def show(self, event: Event) -> None:
        """Takes in one event."""
        self._source.add_event(event)
        if self._display is not None:
            self._display.show(event)

    def wait_for_interrupt(self) -> None:
        """Keeps the page until Ctrl-C."""
        wait_for_interrupt()


@contextlib.contextmanager
def serve_live_page(display: Display | None, assembly: Assembly, *, no_open: bool) -> Iterator[DisplayWithPage]:
    """Serves a page that shows an episode as it happens, beside the display on the terminal."""
    source = LiveSource(active_thresholds(asdict(assembly.parts.thresholds)))
    with ViewServer(source) as server:
        show_page(server, no_open=no_open)
        yield DisplayWithPage(display, source)


def show_page(server: ViewServer, *, no_open: bool) -> None:
    """Says where the page is, and opens it unless told not to."""
    open_address("view", server.address, server.address_once, no_open=no_open)


def open_address(command: str, address: str, address_once: str, *, no_open: bool) -> None:
    """Prints an address, and opens the one with the key that works once in a browser unless told not to."""
    print_notice(f"{command}: {address}")
    if not no_open and not _open_browser(address_once):
        print_notice(f"{command}: no browser was found here; open the address yourself.")


def wait_for_interrupt() -> None:
    """Waits for Ctrl-C, which is how a viewer is meant to end."""
    print_notice("view: the page stays until Ctrl-C.")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


def _open_browser(address: str) -> bool:
    # Without a screen a browser of text would take the terminal over.
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _SCREENS):
        return False
    return webbrowser.open(address)
