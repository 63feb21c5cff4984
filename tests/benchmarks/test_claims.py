"""The page of results claims what the committed files say, and nothing else."""

from __future__ import annotations

import re

from benchmarks.claims import CLAIMS, PAGE, RESULTS, make_table


def test_every_number_on_the_page_of_results_comes_out_of_the_committed_files_again() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = make_table()
    assert table in page
    assert all((RESULTS / claim.file).exists() for claim in CLAIMS)
    # Beside the table there is no number but dates, sizes of the machine and the name of the model.
    rest = re.sub(r"Qwen2\.5-Coder-1\.5B, Q4_K_M|2026-11-\d\d to \d\d|2 cores", "", page.replace(table, ""))
    assert not re.findall(r"\d", rest)
