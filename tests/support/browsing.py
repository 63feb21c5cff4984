"""Visits of the viewer's pages in Debian's chromium, driven by Playwright, where both are there."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

try:
    from playwright.sync_api import expect
except ImportError:  # pragma: no cover
    expect = None  # type: ignore[assignment]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CONTRAST, UNNAMED = (
    (Path(__file__).parents[1] / "web" / "view" / name).read_text() for name in ("contrast.js", "unnamed.js")
)
"""Programs that return what is hard to read, and what has no name for a screen reader."""


def no_browser() -> str:
    """Return why no page can be tried in a browser here; empty if one can."""
    if expect is None:
        return "playwright is not installed: no page was tried in a browser"
    return "" if CHROMIUM else "no chromium is installed ('apt-get install chromium'): no page was tried in a browser"


def page_expectations() -> Any:
    """Playwright's `expect`, patient with a machine that is busy with something else."""
    if expect is not None:
        expect.set_options(timeout=60_000)
    return expect


def launch_options() -> dict[str, Any]:
    """Return how to start it here: the sandbox cannot be used by root."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return {"executable_path": CHROMIUM, "args": ["--no-sandbox"] if root else []}


@dataclass
class Visit:
    """A page, and everything that it asked for or complained of."""

    page: Page
    base: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda told: self.complaints.append(told.text) if told.type == "error" else None)
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))

    def go(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.page

    def end(self) -> None:
        """Nothing was fetched from elsewhere, no script of a text ran, and the browser had nothing to refuse."""
        outside = [url for url in self.requests if not url.startswith((self.base + "/", "file:", "data:", "blob:"))]
        assert outside == []
        assert self.complaints == []
        assert self.page.evaluate("window.hacked") is None
        self.page.context.close()


def visit(browser: Browser, address: str, **context: object) -> Visit:
    """Open a printed address in a browser of its own, which is as wide as `context` says."""
    found = Visit(browser.new_context(**context).new_page(), address.partition("/?")[0])  # type: ignore[arg-type]
    found.page.goto(address)
    return found


def look_at(found: Visit, width: int, where: str) -> None:
    """Nothing is cut off, hard to read or without a name."""
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width, where
    poor = found.page.evaluate(CONTRAST)
    assert poor == [], (where, poor)
    assert found.page.evaluate(UNNAMED) == [], where


def episode_id(found: Visit, query: str) -> int:
    """Return the number of the first episode that a listing finds."""
    number = found.page.evaluate(
        "async (q) => (await (await fetch('/api/episodes?' + q)).json()).episodes[0].id", query
    )
    return int(number)
