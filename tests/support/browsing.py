"""Visits of the viewer's pages in Debian's chromium, driven by Playwright, where both are there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beliefrag.web.view import ViewServer
from tests.support.viewing import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

try:
    from playwright.sync_api import expect
except ImportError:  # pragma: no cover
    expect = None  # type: ignore[assignment]


def no_browser() -> str:
    """Why no page can be tried in a browser here; empty if one can."""
    if expect is None:
        return "playwright is not installed: no page was tried in a browser"
    if chromium() is None:
        return "no chromium is installed ('apt-get install chromium'): no page was tried in a browser"
    return ""


def page_expectations() -> Any:
    """Playwright's `expect`, patient with a machine that is busy with something else."""
    if expect is not None:
        expect.set_options(timeout=60_000)
    return expect


@dataclass
class Visit:
    """A page, and everything that it asked for or complained of."""

    page: Page
    base: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.page

    def check(self) -> None:
        """Nothing was fetched from elsewhere, no script of a text ran, and the browser had nothing to refuse."""
        outside = [url for url in self.requests if not url.startswith((self.base + "/", "data:", "file:", "blob:"))]
        assert outside == []
        assert self.complaints == []
        assert self.page.evaluate("window.hacked") is None


def visit(browser: Browser, server: ViewServer, **context: object) -> Visit:
    """Opens the printed address in a browser of its own, which is as wide as `context` says."""
    page = browser.new_context(**context).new_page()  # type: ignore[arg-type]
    found = Visit(page, f"http://127.0.0.1:{server.port}")
    page.on("request", lambda request: found.requests.append(request.url))
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on("console", lambda message: found.complaints.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: found.complaints.append(f"dialog {dialog.message}"))
    page.goto(server.address)
    return found


def episode_id(found: Visit, query: str) -> int:
    """The number of the first episode that a listing finds."""
    number = found.page.evaluate(
        "async (q) => (await (await fetch('/api/episodes?' + q)).json()).episodes[0].id", query
    )
    return int(number)
