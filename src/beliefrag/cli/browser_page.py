"""Pages for a person: their keys and addresses, the browser, and waiting for Ctrl-C."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from beliefrag.cli.episode_run import Display
from beliefrag.cli.output import print_notice
from beliefrag.engine.assembly import Assembly
from beliefrag.events import Event
from beliefrag.web.auth import BrowserKey
from beliefrag.web.page import AskPage, FeedbackFile, PageEpisodes
from beliefrag.web.service import AnswerService
from beliefrag.web.view import LiveSource, ViewServer, active_thresholds

__all__ = ["FEEDBACK_FILE", "PageAccess", "make_page", "open_address", "serve_live_page", "wait_for_interrupt"]

FEEDBACK_FILE = Path("feedback.jsonl")
_NAMES_SHOWN = 3
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER")
"""One of these is set where a Linux machine has a screen for a browser."""
# The servers' own logger, so that their log holds the address of the page too.
_log = logging.getLogger("beliefrag.web.page")


@dataclass(frozen=True, slots=True)
class PageAccess:
    """The key of a page, and the addresses that hold it."""

    key: BrowserKey
    address: str
    address_once: str
    """With a key that works once, for a command line that other users can read."""

    @classmethod
    def for_server(cls, bound: socket.socket, token: str | None, *, command: str) -> PageAccess:
        """Return the access to a server that listens on a socket; the server's token is the key if it has one."""
        host, port = bound.getsockname()[:2]
        given = token or secrets.token_urlsafe(24)
        once = secrets.token_urlsafe(24)
        base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        # The token of a server belongs to its operator and is never printed.
        shown = "TOKEN" if token else given
        key = BrowserKey(given, once, port, command=command, may_send=True)
        return cls(key, f"{base}/?token={shown}", f"{base}/?token={once}")

    def log_address(self) -> None:
        """Write the address to the server's log."""
        _log.info("page", extra={"fields": {"page": self.address}})


class _DisplayWithPage:
    """A display that a browser page watches too."""

    def __init__(self, display: Display | None, source: LiveSource) -> None:
        self._display = display or contextlib.nullcontext()
        self._source = source

    def __enter__(self) -> _DisplayWithPage:
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.__exit__(kind, error, trace)

    def show(self, event: Event) -> None:
        """Show one event."""
        self._source.add_event(event)
        if not isinstance(self._display, contextlib.nullcontext):
            self._display.show(event)


@contextlib.contextmanager
def serve_live_page(display: Display | None, assembly: Assembly) -> Iterator[Display]:
    """Serve a page that shows an episode as it happens; return the display for both."""
    source = LiveSource(active_thresholds(asdict(assembly.parts.thresholds)))
    with ViewServer(source) as server:
        open_address("view", server.address, server.address_once)
        yield _DisplayWithPage(display, source)


def make_page(
    service: AnswerService,
    feedback: Path | None,
    docs: Sequence[Path] | None,
    index: Path | None,
    *,
    show_prompts: bool,
) -> AskPage:
    """Return the page of a service.

    Args:
        service: What answers.
        feedback: Where feedback is kept; None for the default file.
        docs: The documents that are asked, if they were named.
        index: The index that is asked, if it was named.
        show_prompts: Whether trajectories have prompts and replies.

    Raises:
        SettingsError: The feedback file cannot be written.
    """
    names = [path.resolve().name or str(path) for path in [*(docs or ()), *([index] if index else ())]]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    thresholds = active_thresholds(asdict(service.assembly.parts.thresholds))
    episodes = PageEpisodes(thresholds, show_prompts=show_prompts)
    return AskPage(", ".join(names[:_NAMES_SHOWN]) + more, episodes, FeedbackFile(feedback or FEEDBACK_FILE))


def open_address(command: str, address: str, address_once: str, *, no_open: bool = False) -> None:
    """Print an address, and open it in a browser unless told not to."""
    print_notice(f"{command}: {address}")
    if not no_open and not _open_browser(address_once):
        print_notice(f"{command}: no browser was found here; open the address yourself.")


def wait_for_interrupt() -> None:
    """Wait for Ctrl-C, which ends a viewer."""
    print_notice("view: the page stays until Ctrl-C.")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


def _open_browser(address: str) -> bool:
    # Without a screen, a text browser would take over the terminal.
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _SCREENS):
        return False
    return webbrowser.open(address)
