"""A server with the page to ask in, on passages of which one is hostile, and a scripted model."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from beliefrag.types import Passage
from beliefrag.web.auth import BrowserKey
from beliefrag.web.page import AskPage, FeedbackFile, PageEpisodes
from tests.support.episodes import verdict
from tests.support.serving import Served, opened, served
from tests.support.viewing import HOSTILE

TRAVEL = "Who approves travel above the limit?"
SHIP = "Which ship took Amundsen?"
UNKNOWN = "Zorblax quux frobnicates?"
"""No passage has one of its words."""
FILE = "/srv/private/handbook/travel.md"
PASSAGES = [
    Passage(
        "t1", "Travel", "Trips are booked early.\nThe desk is in the Elm Building.", "/srv/private/handbook/travel.md"
    ),
    Passage(
        "t2",
        "Travel",
        "Above the limit \U0001f6eb a trip is asked for in writing. Travel above the limit is approved by the head of "
        "finance. It takes two days.",
        FILE,
    ),
    Passage("l1", "Leave", "Leave is approved by the team lead.", "https://example.org/wiki/leave"),
    Passage(
        "s1", f"Ship {HOSTILE}", f"The ship {HOSTILE} took Amundsen through the ice.", f"/srv/private/{HOSTILE}.md"
    ),
]
SURE = verdict(0.95, 0.0, 0.0) | {"repeat": True}
REPLIES: Sequence[Mapping[str, Any]] = (
    verdict(0.0, 1.0, 1.0) | {"match": UNKNOWN, "repeat": True},
    {"purpose": "query_writer", "reply": "SUFFICIENT", "repeat": True},
    {"purpose": "standalone", "match": UNKNOWN, "reply": UNKNOWN, "repeat": True},
    {"purpose": "standalone", "reply": TRAVEL, "repeat": True},
    {"purpose": "rewriter", "reply": "moon colour", "repeat": True},
    SURE,
    {"purpose": "answer", "match": SHIP, "reply": HOSTILE, "repeat": True},
    {"purpose": "answer", "reply": "the head of finance", "repeat": True},
)


@dataclass(frozen=True)
class Asking:
    """A running server with a page."""

    served: Served
    address: str
    """With the key of the page."""
    feedback: Path

    @property
    def url(self) -> str:
        return self.served.url

    @contextlib.contextmanager
    def browser(self, **how: Any) -> Iterator[httpx2.Client]:
        """Return a client that has followed the printed address, and sends what a browser sends."""
        with self.served.client(headers={"Origin": self.url}, **how) as client:
            assert client.get(self.address.removeprefix(self.url)).status_code == 303
            yield client

    def labels(self) -> list[dict[str, Any]]:
        """Return what was kept as feedback."""
        if not self.feedback.exists():
            return []
        return [json.loads(line) for line in self.feedback.read_text(encoding="ascii").splitlines()]


@contextlib.contextmanager
def asking(
    folder: Path,
    *,
    replies: Sequence[Mapping[str, Any]] = REPLIES,
    seconds: float = 0.0,
    passages: Sequence[Passage] = PASSAGES,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Asking]:
    """Serve the page as `beliefrag app` does."""
    assembly, chosen = opened(folder, *replies, seconds=seconds, passages=passages, **dict(settings or {}))
    feedback = folder / "feedback.jsonl"
    keys: list[BrowserKey] = []

    def make_key(bound: socket.socket) -> BrowserKey:
        keys.append(BrowserKey(bound.getsockname()[1], "beliefrag app", may_send=True))
        return keys[0]

    page = AskPage("handbook", PageEpisodes(), FeedbackFile(feedback))
    with served(assembly, chosen, make_key=make_key, page=page) as running:
        yield Asking(running, keys[0].address, feedback)
