"""What a reader of a run finds on its pages: two methods compared, highlights, anchors, groups, live runs, phones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from beliefrag.record import Outcome, ShownPassage, to_json_line
from beliefrag.types import Citation, CitationRole
from beliefrag.web.view import RunSource, TraceSource, ViewServer
from beliefrag.web.view.sources import read_trace
from tests.support.browsing import Visit, episode_id, no_browser, page_expectations, visit
from tests.web.view.conftest import Played

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.skipif(no_browser() != "", reason=no_browser())
expect = page_expectations()

PHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def phone(browser: Browser, server: ViewServer) -> Iterator[Visit]:
    found = visit(browser, server.key.address, **PHONE)
    yield found
    found.end()


def compared(found: Visit, question: str = "north1", other: str = "static") -> str:
    """The address that sets BeliefRAG beside another method."""
    one, two = (episode_id(found, f"text={question}&method={method}") for method in ("beliefrag", other))
    return f"/compare/{one}/{two}"


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
    expect(page.locator(".parting")).to_have_text("They part at step 2: BeliefRAG chooses VERIFY, Static ANSWER")
    steps = page.get_by_role("region", name="Steps").locator(".side")
    expect(steps.nth(0).locator(".step").first).to_contain_text("VERIFY")
    expect(steps.nth(1).locator(".step")).to_have_count(1)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))


def test_a_comparison_has_one_matrix_of_evidence_and_no_empty_card(visitor: Visit) -> None:
    page = visitor.go(compared(visitor))
    table = page.locator("table.evidence")
    expect(table).to_have_count(1)
    expect(table.locator("thead th[scope=colgroup]")).to_have_text(["BeliefRAG", "Static"])
    # What VERIFY dropped is used by Static alone.
    expect(table.locator("tr", has=page.locator("td.dropped"))).to_contain_text("used by Static")
    rows = table.locator("tbody:visible tr:not(.opened)")
    shown = rows.count()
    fold = page.get_by_role("button", name=re.compile("with the same fate in both"))
    fold.click()
    expect(fold).to_have_attribute("aria-expanded", "true")
    assert rows.count() > shown
    expect(page.get_by_role("region", name="Belief").locator(".chart").first).to_be_visible()
    static, closed = (episode_id(visitor, f"text=north1&method={method}") for method in ("static", "no_rag"))
    page = visitor.go(f"/compare/{static}/{closed}")
    expect(page.locator(".parting")).to_contain_text("They part at step 1")
    expect(page.get_by_role("region", name="Belief")).to_have_count(0)
    assert page.evaluate("[...document.querySelectorAll('.panel')].every((each) => each.innerText.trim().length > 30)")


def test_answer_gold_answer_and_citations_are_marked_in_passages(
    browser: Browser, visitor: Visit, trace: Path, tmp_path: Path
) -> None:
    page = visitor.go(f"/episode/{episode_id(visitor, 'text=north0&method=static')}")
    page.locator("table.evidence summary", has_text="Buildernorth0").click()
    expect(page.locator(".passage mark.answer.gold-answer")).to_have_text("Larvik")
    expect(page.locator(".legend mark")).to_have_text(["the answer", "the gold answer", "what the answer rests on"])
    record = read_trace(trace)
    passage = next(each for each in record.passages.values() if "Colin Archer" in each.text)
    start = passage.text.index("Colin Archer")
    shown = ShownPassage(passage_id=passage.id, spans=((0, start),))
    changed = {
        "answer": "Archer",
        "outcome": Outcome.ANSWERED,
        "citations": (Citation(passage.id, "Colin Archer", (start, start + 12), CitationRole.ANSWER),),
        "steps": tuple(step.model_copy(update={"shown": (shown,)}) for step in record.steps),
    }
    file = tmp_path / "cited.jsonl"
    file.write_text(to_json_line(record.model_copy(update=changed)), encoding="utf-8")
    with ViewServer(TraceSource(file)) as server:
        found = visit(browser, server.key.address)
        page = found.page
        expect(page.get_by_role("region", name="How it ended").locator(".citations")).to_contain_text("Colin Archer")
        page.locator("table.evidence tr", has_text="cited").locator("summary").click()
        expect(page.locator(".passage mark.cited")).to_have_text(["Colin ", "Archer"])
        expect(page.locator(".passage mark.cited.answer")).to_have_text("Archer")
        expect(page.locator(".passage mark.unshown").first).to_contain_text("Colin")
        found.end()


def test_episodes_are_grouped_by_question_and_gold_answers_are_searched(visitor: Visit) -> None:
    page = visitor.go("/episodes")
    groups = page.locator("table.episodes tbody")
    expect(groups).to_have_count(8)
    expect(page.locator("tr.episode")).to_have_count(24)
    expect(groups.first.locator("tr.asked")).to_contain_text("gold answer")
    page.get_by_label("search").fill("molde")
    expect(groups).to_have_count(2)
    expect(groups.first.locator("tr.asked")).to_contain_text("ship north2 born? north, gold answer Molde")
    expect(groups.first.locator("tr.episode")).to_have_count(3)
    page.get_by_label("search").fill("")
    expect(groups).to_have_count(8)
    page.get_by_label("list by").select_option("episodes")
    expect(groups).to_have_count(1)
    page.get_by_label("list by").select_option("questions")
    expect(groups).to_have_count(8)
    groups.first.get_by_role("link", name="compare").click()
    page.wait_for_url(re.compile(r"/compare/\d+/\d+"))


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
