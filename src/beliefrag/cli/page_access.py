"""What `app` and `serve http --page` share: the key of the page, its address, and where feedback goes."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from beliefrag.web.auth import BrowserKey
from beliefrag.web.page import AskPage, FeedbackFile, PageEpisodes
from beliefrag.web.service import AnswerService
from beliefrag.web.view import active_thresholds

__all__ = ["FEEDBACK_FILE", "PageAccess", "make_page", "open_feedback"]

FEEDBACK_FILE = Path("feedback.jsonl")
_NAMES_SHOWN = 3
# The name of a logger of the servers, so that their log holds the address beside that of the server.
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
        """Makes the key for a server that listens there; the token of the server is the key where there is one."""
        host, port = bound.getsockname()[:2]
        given = token or secrets.token_urlsafe(24)
        once = secrets.token_urlsafe(24)
        base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        # The token of a server is its operator's: it is not printed, and belongs after the sign in its place.
        shown = "TOKEN" if token else given
        key = BrowserKey(given, once, port, command=command, may_send=True)
        return cls(key, f"{base}/?token={shown}", f"{base}/?token={once}")

    def log_address(self) -> None:
        """Writes the address to the server's log."""
        _log.info("page", extra={"fields": {"page": self.address}})


def open_feedback(path: Path | None) -> FeedbackFile:
    """Opens the file for feedback.

    Raises:
        SettingsError: It cannot be written.
    """
    return FeedbackFile(path or FEEDBACK_FILE)


def make_page(
    service: AnswerService,
    feedback: FeedbackFile,
    docs: Sequence[Path] | None,
    index: Path | None,
    *,
    show_prompts: bool,
) -> AskPage:
    """Makes the page of a service.

    Args:
        service: What answers.
        feedback: Where feedback is kept.
        docs: The documents that are asked, if they were named.
        index: The index that is asked, if it was named.
        show_prompts: Whether trajectories have prompts and replies.
    """
    names = [path.resolve().name or str(path) for path in [*(docs or ()), *([index] if index else ())]]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    thresholds = active_thresholds(asdict(service.assembly.parts.thresholds))
    episodes = PageEpisodes(thresholds, show_prompts=show_prompts)
    return AskPage(", ".join(names[:_NAMES_SHOWN]) + more, episodes, feedback)
