"""The pages in a real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from beliefrag.web.view import RunSource, ViewServer
from tests.support.browsing import Visit, episode_id, look_at, no_browser, page_expectations, visit
from tests.support.viewing import HOSTILE
from tests.web.view.conftest import Played

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.skipif(no_browser() != "", reason=no_browser())
expect = page_expectations()


def test_the_run_page_shows_numbers_figure_and_failures_and_can_be_filtered_and_sorted(visitor: Visit) -> None:
    page = visitor.page
    assert "token=" not in page.url
    expect(page.get_by_role("status")).to_contain_text("INCOMPLETE: 1 failed")
    figure = page.get_by_role("img", name=re.compile("^F1 against tokens, mean over datasets"))
    expect(figure).to_be_visible()
    expect(figure.locator(".spot")).to_have_count(3)
    table = page.get_by_role("table", name="Methods by datasets")
    expect(table.locator("tbody tr")).to_have_count(9)
    page.get_by_label("Filter methods").fill("belief")
    expect(table.locator("tbody tr")).to_have_count(3)
    page.get_by_label("Filter methods").fill("")
    page.get_by_label("Dataset", exact=True).select_option("north")
    expect(table.locator("tbody tr")).to_have_count(3)
    table.get_by_role("button", name="tokens").click()
    expect(table.locator("th[aria-sort=descending]")).to_contain_text("tokens")
    cells = table.locator("tbody tr td:nth-child(5) b").all_inner_texts()
    tokens = [int(cell.replace(",", "")) for cell in cells]
    assert tokens == sorted(tokens, reverse=True)
    page.locator("a.warn").first.click()
    page.wait_for_url(re.compile("/episodes.*outcome=failed"))
    expect(page.locator("table.episodes tr.episode")).to_have_count(1)


def test_episodes_are_searched_filtered_and_walked_through_by_keys(visitor: Visit) -> None:
    page = visitor.go("/episodes?by=episode")
    rows = page.locator("table.episodes tbody tr")
    expect(rows).to_have_count(24)
    page.keyboard.press("/")
    page.keyboard.type("ship north0")
    expect(rows).to_have_count(3)
    page.get_by_label("method").select_option("beliefrag")
    expect(rows).to_have_count(1)
    assert "text=ship" in page.url
    page.get_by_label("search").fill("")
    page.get_by_label("actions").fill("verify rewrite")
    expect(rows).to_have_count(1)
    page.get_by_label("actions").fill("")
    page.get_by_label("correct").select_option("right")
    expect(rows).to_have_count(2)
    page.get_by_label("correct").select_option("")
    expect(rows).to_have_count(8)
    page.get_by_label("actions").fill("nothing")
    expect(page.get_by_text("No episode matches.")).to_be_visible()
    page.get_by_label("actions").fill("")
    expect(rows).to_have_count(8)
    page.get_by_role("button", name="tokens").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("tokens")
    page.keyboard.press("Escape")
    for key in "jjk":
        page.keyboard.press(key)
    expect(rows.nth(0).locator("a")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/episode/\d+\?"))
    expect(page.get_by_text("1 of 8")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_text("2 of 8")).to_be_visible()
    page.keyboard.press("u")
    page.wait_for_url(re.compile("/episodes.*method=beliefrag"))
    expect(rows).to_have_count(8)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("previous episode")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_an_episode_shows_belief_steps_evidence_calls_and_gold(visitor: Visit) -> None:
    page = visitor.go(f"/episode/{episode_id(visitor, 'text=north1&method=beliefrag')}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Where was the builder of ship north1 born?")
    ending = page.get_by_role("region", name="How it ended")
    expect(ending).to_contain_text("Bergen harbour")
    expect(ending).to_contain_text("gold answer")
    chart = page.get_by_role("img", name=re.compile("^answerability over the steps: step 1 .*answer ≥ 0.50"))
    expect(chart).to_be_visible()
    expect(chart.locator("text.threshold").first).to_contain_text("answer ≥ 0.50")
    steps = page.locator(".step")
    expect(steps.nth(1)).to_contain_text("VERIFY")
    expect(steps.nth(1)).to_contain_text("correct-flagged")
    expect(steps.nth(1)).to_contain_text("flagged passages 1.00")
    expect(steps.nth(1)).to_contain_text("dropped")
    evidence = page.locator("table.evidence")
    expect(evidence.locator("td.dropped")).to_have_count(1)
    expect(evidence.locator(".tag.gold")).to_have_count(2)
    evidence.locator("tr", has=page.locator("td.dropped")).locator("summary").click()
    expect(evidence.locator("tr.opened:visible .history")).to_contain_text("Step 2: dropped:")
    call = page.locator(".call").first
    call.locator("summary").click()
    expect(call).to_contain_text("a run keeps replies and no prompts")
    expect(call).to_contain_text("read as it was")


def test_hostile_passages_and_replies_are_text(visitor: Visit) -> None:
    page = visitor.go(f"/episode/{episode_id(visitor, 'text=south0&method=static')}")
    evidence = page.locator("table.evidence")
    evidence.locator("tr", has_text="Ship south0").first.locator("summary").click()
    passage = evidence.locator("tr.opened:visible .passage")
    expect(passage).to_contain_text("<script>window.hacked = 1</script><img src=x")
    expect(passage).to_contain_text("[click](javascript:window.hacked=3)")
    expect(passage.locator(".hidden-mark")).to_have_text(["U+202E", "U+202C"])
    assert page.locator("main a[href^=javascript], main script, main img").count() == 0
    page = visitor.go(f"/episode/{episode_id(visitor, 'text=south2&method=static')}")
    expect(page.get_by_role("region", name="How it ended")).to_contain_text(HOSTILE[:60])
    page.locator(".call summary").first.click()
    expect(page.locator(".call .message").last).to_contain_text(HOSTILE[:60])
    page = visitor.go("/episodes?text=south2")
    expect(page.locator("table.episodes")).to_contain_text("<script>window.hacked")


def test_no_element_can_be_made_from_text(visitor: Visit) -> None:
    told = visitor.page.evaluate(
        "() => { try { document.createElement('p').innerHTML = '<b>'; return 'made'; } catch (e) { return e.name; } }"
    )
    assert told == "TypeError"
    visitor.complaints.clear()  # the refusal is what was wanted


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_pages_are_readable_in_light_and_dark_and_in_a_narrow_window(
    browser: Browser, server: ViewServer, scheme: str, width: int
) -> None:
    found = visit(browser, server.key.address, color_scheme=scheme, viewport={"width": width, "height": 800})
    number = episode_id(found, "text=north1&method=beliefrag")
    for path in ("/", "/episodes", f"/episode/{number}", f"/compare/{number}/{number - 1}"):
        page = found.go(path)
        expect(page.locator("main .panel").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        look_at(found, width, path)
    found.end()


def test_everything_can_be_reached_and_seen_by_the_tab_key(visitor: Visit) -> None:
    page = visitor.go("/episodes?by=episode")
    expect(page.locator("table.episodes tbody tr")).to_have_count(24)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        name = page.evaluate("document.activeElement.tagName")
        assert outline != "none" or name == "BODY", page.evaluate("document.activeElement.className")
        seen.add(name)
    assert {"A", "BUTTON", "INPUT", "SELECT"} <= seen


PHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def phone(browser: Browser, server: ViewServer) -> Iterator[Visit]:
    found = visit(browser, server.key.address, **PHONE)
    yield found
    found.end()


def test_two_methods_are_shown_as_a_difference(visitor: Visit) -> None:
    page = visitor.go(f"/episode/{episode_id(visitor, 'text=north1&method=beliefrag')}")
    page.get_by_role("navigation", name="Set beside").get_by_role("link", name="Static").click()
    page.wait_for_url(re.compile(r"/compare/\d+/\d+"))
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    endings = page.get_by_role("region", name="How they ended")
    expect(endings.get_by_role("row", name=re.compile("^answer"))).to_contain_text("Bergen harbour")
    # Both gave the same answer: it stands once.
    expect(endings.locator("tr", has_text="answer").first.locator("td")).to_have_count(1)
    folded = page.locator("details.folded").first
    expect(folded.locator("> summary")).to_have_text("Step 1 is the same in both: RETRIEVE")
    expect(folded.locator(".step")).not_to_be_visible()
    expect(page.locator(".parting")).to_have_text("They differ from step 2 on: BeliefRAG chooses VERIFY, Static ANSWER")
    steps = page.get_by_role("region", name="Steps").locator(".side")
    expect(steps.nth(0).locator(".step").first).to_contain_text("VERIFY")
    expect(steps.nth(1).locator(".step")).to_have_count(1)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))


def test_a_run_under_way_refreshes_by_itself(browser: Browser, played: Played, tmp_path: Path) -> None:
    lines = (played.run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "run.json").write_bytes((played.run / "run.json").read_bytes())
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(b"".join(lines[:5]))
    with ViewServer(RunSource(tmp_path, [played.data])) as server:
        found = visit(browser, server.key.address)
        page = found.page
        expect(page.get_by_role("status")).to_contain_text("19 of 24 episodes")
        file.write_bytes(b"".join(lines[:9]))
        expect(page.get_by_role("status")).to_contain_text("15 of 24 episodes", timeout=60_000)
        page = found.go("/episodes")
        expect(page.locator("tr.episode")).to_have_count(9)
        link = page.locator("a.open").first
        link.focus()
        file.write_bytes(b"".join(lines[:12]))
        expect(page.locator("tr.episode")).to_have_count(12)
        expect(link).to_be_focused()
        found.end()


def test_on_a_phone_an_episode_is_a_card_with_answer_and_outcome_first(phone: Visit) -> None:
    for path, count in (("/episodes", 24), ("/episodes?by=episode", 24)):
        page = phone.go(path)
        cards = page.locator("tr.episode")
        expect(cards).to_have_count(count)
        card = cards.first
        place = {name: card.locator(f"td.{name}").bounding_box() for name in ("answer", "outcome", "method", "tokens")}
        tops = {name: box["y"] for name, box in place.items() if box}
        assert max(tops["answer"], tops["outcome"]) < tops["method"] < tops["tokens"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.get_by_label("outcome")).not_to_be_visible()
    page.get_by_role("button", name="filters").click()
    page.get_by_label("outcome").select_option("failed")
    expect(cards).to_have_count(1)
