"""The page of results claims what the committed files say, and nothing else."""

from __future__ import annotations

import json
import re

from benchmarks.claims import CLAIMS, PAGE, RESULTS, make_table
from benchmarks.find import other_systems
from benchmarks.find.tables import MARK, write_page


def test_every_number_on_the_page_of_results_comes_out_of_the_committed_files_again() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = make_table()
    assert table in page
    assert all((RESULTS / claim.file).exists() for claim in CLAIMS)
    # Beside the table there is no number but dates, sizes of the machine and the name of the model.
    rest = re.sub(r"Qwen2\.5-Coder-1\.5B, Q4_K_M|2026-11-\d\d to \d\d|2 cores", "", page.replace(table, ""))
    assert not re.findall(r"\d", rest)


def test_the_tables_on_finding_come_out_of_the_committed_numbers_again() -> None:
    numbers = json.loads((RESULTS / "find.json").read_text(encoding="utf-8"))
    assert (RESULTS / "find.md").read_text(encoding="utf-8").partition(MARK)[2] == "\n" + write_page(numbers)
    beside = (RESULTS / "other_systems.md").read_text(encoding="utf-8")
    assert beside.partition(other_systems.MARK)[2] == other_systems.write_tables()
