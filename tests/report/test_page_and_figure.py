"""Pages need nothing else and escape all text; the figure of quality against tokens has a mark for each point."""

from __future__ import annotations

import re
from pathlib import Path

from beliefrag.report.figure import draw_quality_against_tokens, figure_svg, methods_on_front, open_figure, save_figure
from beliefrag.report.table import Heading, Page, PageLink, Picture, Table
from beliefrag.runs.statistics import Estimate

HOSTILE = "</p><script>x</script>[a](b)`c`"
MEANS = {"<b>One": (Estimate(100.0, 90.0, 110.0), Estimate(0.5, 0.4, 0.6)), "Two": (Estimate(300.0), Estimate(0.4))}


def test_all_text_of_a_page_is_escaped_in_both_forms() -> None:
    table = Table.of_texts("t", HOSTILE, (HOSTILE,), [(HOSTILE,)])
    page = Page(HOSTILE, (Heading(HOSTILE), HOSTILE, (HOSTILE,), table), status=HOSTILE)
    assert "<script" not in page.to_html() + page.to_markdown() + page._repr_html_()
    assert not re.search(r"(?<!\\)\[a\]?\(?", page.to_markdown())


def test_the_status_comes_first_and_is_marked_where_something_is_missing() -> None:
    page = Page("Title", (), status="INCOMPLETE: 3 are missing.", complete=False)
    assert page.to_markdown().splitlines()[0] == "INCOMPLETE: 3 are missing."
    assert '<p class="state incomplete">INCOMPLETE' in page.to_html()


def test_a_page_holds_its_pictures_and_links_to_pages_of_its_own_format() -> None:
    page = Page("T", (Picture("<svg></svg>", "A picture", "p.png"), PageLink("More", "more/index")))
    assert "<svg></svg>" in page.to_html()
    assert 'href="more/index.html"' in page.to_html()
    assert "![A picture](p.png)" in page.to_markdown()
    assert "[More](more/index.md)" in page.to_markdown()


def test_empty_blocks_are_left_out() -> None:
    page = Page("T", ((), Table.of_texts("t", "Title", ("a",), []), Picture("<svg></svg>")))
    assert page.to_markdown() == "# T\n"


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    def save(folder: Path) -> list[bytes]:
        folder.mkdir()
        figure = open_figure((6.0, 4.0))
        draw_quality_against_tokens({"T": MEANS}, figure)
        files = save_figure(figure, [folder / "f.png", folder / "f.pdf"])
        return [file.read_bytes() for file in files] + [figure_svg(figure, "about").encode()]

    assert save(tmp_path / "one") == save(tmp_path / "two")


def test_a_drawing_shows_what_it_is_about_as_text_and_no_address() -> None:
    figure = open_figure((6.0, 4.0))
    assert methods_on_front(MEANS) == ["<b>One"]
    draw_quality_against_tokens({"Frontier": MEANS}, figure)
    svg = figure_svg(figure, '"about"')
    assert 'aria-label="&quot;about&quot;"' in svg
    assert "<b>" not in svg and "matplotlib.org" not in svg
