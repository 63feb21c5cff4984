"""The page to ask in, in a real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from beliefrag.explanation import DECLINED
from tests.support import browsing
from tests.support.asking import REPLIES, SHIP, TRAVEL, UNKNOWN, Asking, asking
from tests.support.browsing import Visit, launch_options, look_at, no_browser, page_expectations
from tests.support.serving import wait_for
from tests.support.viewing import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(no_browser() != "", reason=no_browser())
expect = page_expectations()

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def visit(browser: Browser, server: Asking, **context: object) -> Visit:
    found = browsing.visit(browser, server.address, **context)
    expect(found.page.get_by_label("Question", exact=True)).to_be_focused()
    assert "token" not in found.page.url
    return found


def ask(found: Visit, question: str = TRAVEL) -> Page:
    found.page.get_by_label("Question", exact=True).fill(question)
    found.page.keyboard.press("Enter")
    expect(found.page.get_by_role("group", name="Was this right?")).to_be_visible()
    return found.page


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with asking(tmp_path_factory.mktemp("asked")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(server: Asking) -> Iterator[Browser]:
    # The server is opened before: Playwright takes this thread's event loop.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(**launch_options())
        yield opened
        opened.close()


@pytest.fixture
def visitor(browser: Browser, server: Asking) -> Iterator[Visit]:
    found = visit(browser, server)
    yield found
    found.end()


def test_an_answer_comes_with_its_quotes_confidence_cost_and_steps(visitor: Visit) -> None:
    expect(visitor.page.locator(".welcome")).to_contain_text("handbook (4 passages")
    page = ask(visitor)
    expect(page.get_by_role("heading", level=1)).to_have_text(TRAVEL)
    expect(page.locator(".answer")).to_have_text("the head of finance")
    expect(page.locator(".confidence")).to_contain_text(re.compile(r"\d+% likely right"))
    quotes = page.get_by_role("region", name="Quotes").locator("blockquote")
    expect(quotes.last).to_contain_text("Travel above the limit is approved by the head of finance.")
    expect(page.locator(".cost")).to_contain_text(re.compile(r"^[\d,]+ tokens, 2 model calls, 1 search, "))
    page.get_by_text("Why", exact=True).click()
    expect(page.locator(".happening li").first).to_contain_text(f"Searched: {TRAVEL}: found")
    assert "answerability" not in page.locator("main").inner_text()


def test_a_quote_is_opened_in_its_document_and_marked(visitor: Visit) -> None:
    page = ask(visitor)
    opener = page.get_by_role("button", name="Open Travel · travel.md").last
    opener.click()
    panel = page.get_by_role("region", name="Document", exact=True)
    expect(panel.get_by_role("heading", level=2)).to_have_text("Travel · travel.md")
    expect(panel.locator("mark").last).to_have_text("Travel above the limit is approved by the head of finance.")
    # The passage before it belongs to the same file; that of another file does not.
    expect(panel).to_contain_text("The desk is in the Elm Building.")
    expect(panel).not_to_contain_text("team lead")
    expect(panel.locator(".cited")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(opener).to_be_focused()


def test_steps_are_seen_while_they_happen_and_a_question_can_be_stopped(browser: Browser, tmp_path: Path) -> None:
    with asking(tmp_path, seconds=600) as slow:
        found = visit(browser, slow)
        page = found.page
        page.get_by_label("Question", exact=True).fill(TRAVEL)
        page.get_by_role("button", name="Ask").click()
        expect(page.locator(".happening li")).to_contain_text(["Searched"])
        expect(page.locator(".waiting")).to_contain_text("Reading what was found")
        expect(page.locator(".elapsed")).to_have_text(re.compile(r"\d+ s"))
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text("Stopped. Nothing was kept.")).to_be_visible()
        wait_for(lambda: slow.served.model.inside == 0)
        expect(page.get_by_role("button", name="Ask")).to_be_visible()
        found.end()


def test_a_question_that_the_documents_do_not_answer_is_declined_in_words(visitor: Visit) -> None:
    page = ask(visitor, UNKNOWN)
    expect(page.locator(".answer")).to_have_text(DECLINED)
    expect(page.locator(".declined")).to_contain_text("Missing: no passage matches")
    expect(page.locator(".why")).to_contain_text("Searched once")
    expect(page.get_by_role("button", name="Right to decline")).to_be_visible()
    expect(page.get_by_role("region", name="Quotes")).to_have_count(0)


def test_earlier_questions_stay_in_this_browser_alone(browser: Browser, server: Asking) -> None:
    found = visit(browser, server)
    page = ask(found)
    ask(found, UNKNOWN)
    earlier = page.get_by_role("navigation", name="Earlier questions")
    expect(earlier.get_by_role("listitem")).to_have_count(2)
    page.reload()
    expect(earlier.get_by_role("listitem")).to_have_count(2)
    earlier.get_by_role("button", name=TRAVEL).click()
    expect(page.locator(".answer")).to_have_text("the head of finance")
    page.get_by_role("button", name="Open Travel").last.click()
    expect(page.locator(".document mark").last).to_be_visible()
    page.keyboard.press("Escape")
    other = visit(browser, server)
    expect(other.page.get_by_role("navigation", name="Earlier questions")).to_be_hidden()
    earlier.get_by_role("button", name="Forget these").click()
    page.reload()
    expect(page.get_by_label("Question", exact=True)).to_be_focused()
    expect(earlier).to_be_hidden()
    for each in (found, other):
        each.end()


def test_hostile_questions_answers_passages_and_histories_are_text(visitor: Visit) -> None:
    page = ask(visitor, SHIP)
    expect(page.locator(".answer")).to_contain_text("<script>window.hacked = 1</script><img src=x")
    expect(page.locator(".answer .hidden-mark")).to_have_text(["U+202E", "U+202C"])
    page.locator(".quotes .open, .further .open").first.click()
    panel = page.get_by_role("region", name="Document", exact=True)
    expect(panel).to_contain_text("[click](javascript:window.hacked=3)")
    ask(visitor, f"Who approves {HOSTILE}?")
    expect(page.get_by_role("heading", level=1)).to_contain_text("<script>window.hacked = 1</script>")
    page.reload()
    earlier = page.get_by_role("navigation", name="Earlier questions")
    expect(earlier).to_contain_text("<script>window.hacked")
    page.locator("main a[href^=javascript], main script, main img").first.wait_for(state="detached")
    # Something else may have written to the storage of this address.
    planted = [{"question": HOSTILE, "at": "x", "seconds": 1, "answer": {"id": HOSTILE, "outcome": HOSTILE}}]
    page.evaluate("(text) => localStorage.setItem('asked:handbook', text)", json.dumps(planted))
    page.reload()
    expect(page.get_by_label("Question", exact=True)).to_be_focused()
    expect(earlier).to_be_hidden()


def test_a_page_of_another_site_can_neither_read_nor_send(browser: Browser, server: Asking) -> None:
    found = visit(browser, server)
    before = server.served.model.asked
    page = found.page.context.new_page()
    page.route("http://evil.example/*", lambda route: route.fulfill(body="<p>evil</p>", content_type="text/html"))
    page.goto("http://evil.example/")
    send = """async ([url, question]) => {
      const tries = [
        () => fetch(url + '/page/about', { credentials: 'include' }),
        () => fetch(url + '/v1/ask', { method: 'POST', credentials: 'include', mode: 'no-cors',
                                       body: JSON.stringify({ question }), headers: { 'Content-Type': 'text/plain' } }),
        () => fetch(url + '/page/feedback', { method: 'POST', credentials: 'include',
                                              body: '{}', headers: { 'Content-Type': 'application/json' } }),
      ];
      const told = [];
      for (const attempt of tries) {
        try { told.push((await attempt()).type); } catch (error) { told.push('refused'); }
      }
      return told;
    }"""
    assert page.evaluate(send, [server.url, TRAVEL]) in (["refused", "opaque", "refused"], ["refused"] * 3)
    assert server.served.model.asked == before
    page.context.close()


def test_everything_works_by_keyboard_alone(visitor: Visit) -> None:
    page = visitor.page
    page.keyboard.type(TRAVEL)
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    expect(page.get_by_role("group", name="Was this right?")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    panel = page.get_by_role("region", name="Document", exact=True)
    expect(panel.locator("mark").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_label("Question", exact=True)).to_be_focused()
    names = []
    for _ in range(30):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or page.evaluate("document.activeElement.tagName") == "BODY"
        names.append(page.evaluate("document.activeElement.textContent.trim()"))
        if names[-1] == "Wrong":
            page.keyboard.press("Enter")
            break
    assert any("Open Travel" in name for name in names)
    page.keyboard.type("the board")
    page.keyboard.press("Enter")
    expect(page.locator(".kept")).to_have_text("Kept, with the right answer.")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("to the question box")
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    page.wait_for_url(re.compile(r"/episode/\d+"))
    expect(page.locator(".step").first).to_be_visible()
    page.get_by_role("link", name="Ask").click()
    expect(page.get_by_role("navigation", name="Earlier questions")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_the_page_is_readable_in_light_and_dark_and_on_a_phone(
    browser: Browser, server: Asking, scheme: str, width: int
) -> None:
    device = PHONE if width == 390 else {"viewport": {"width": width, "height": 800}}
    found = visit(browser, server, color_scheme=scheme, **device)

    look_at(found, width, "before")
    page = ask(found)
    page.get_by_role("button", name="Wrong").click()
    expect(page.locator(".kept")).not_to_be_empty()
    look_at(found, width, "answer")
    page.get_by_role("button", name="Open Travel").last.click()
    expect(page.locator(".document mark").first).to_be_visible()
    look_at(found, width, "document")
    if width == 390:
        box = page.get_by_role("region", name="Document", exact=True).bounding_box()
        assert box is not None
        assert (box["x"], box["width"]) == (0, 390)
        assert page.evaluate("document.querySelector('.column').inert")
    page.get_by_role("button", name="close").click()
    ask(found, SHIP)
    look_at(found, width, "hostile")
    ask(found, UNKNOWN)
    look_at(found, width, "declined")
    found.end()


def test_a_conversation_goes_on_below_its_answer_until_a_new_one_begins(browser: Browser, tmp_path: Path) -> None:
    write = {"purpose": "write", "reply": "Travel above the limit is approved by the head of finance.", "repeat": True}
    with asking(tmp_path, replies=(*REPLIES, write), settings={"answer_style": "sentence"}) as server:
        for context in ({}, PHONE):
            found = visit(browser, server, **context)
            page = ask(found)
            page.get_by_role("button", name="Quote 1").first.click()
            expect(page.get_by_role("button", name="Open Travel · travel.md").first).to_be_focused()
            page.get_by_label("Question", exact=True).fill("Who is it?")
            page.keyboard.press("Enter")
            expect(page.locator(".understood")).to_have_text(f"Understood as: {TRAVEL}")
            expect(page.locator(".turn .said")).to_have_text(TRAVEL)
            expect(page.locator(".cost")).to_contain_text("0 searches")
            page.get_by_role("button", name="New conversation").click()
            expect(page.locator(".turn")).to_have_count(0)
            ask(found, "Who is it?")
            expect(page.locator(".declined .answer")).to_contain_text("What does “it” refer to?")
            found.end()
