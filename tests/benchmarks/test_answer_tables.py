"""The pages about follow-up questions and whole answers have the tables that the committed rows make, and no others."""

from __future__ import annotations

import re

from benchmarks.answer_tables import PAGES, TABLES, fill


def test_every_table_of_the_pages_comes_out_of_the_committed_rows_again() -> None:
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    assert [fill(page) for page in pages] == pages
    assert sorted(name for page in pages for name in re.findall(r"<!-- table: (\w+) -->", page)) == sorted(TABLES)
    for page in pages:
        outside = re.sub(r"<!-- table.*?<!-- end of table -->|```.*?```|`[^`]*`", "", page, flags=re.DOTALL)
        assert "|" not in outside
