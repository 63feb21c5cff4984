"""One table in every form: values stay values for programs, and no text becomes markup."""

from __future__ import annotations

import csv
import io
import sys
from types import SimpleNamespace

import pytest

from beliefrag.errors import SettingsError
from beliefrag.report.table import Column, Table, format_cell
from beliefrag.runs.statistics import Estimate

HOSTILE = "<script>alert(1)</script>|[x](y)_$"
COLUMNS = (Column("name"), Column("share of it", "share", digits=2, bounded=True), Column("n"))
ROWS = (("a", Estimate(1 / 3, 0.1, 0.5), 7), ("b", Estimate(0.25), None), (HOSTILE, None, 2))
TABLE = Table("t", "Title", COLUMNS, ROWS, "A note.")


def test_a_table_for_programs_has_bounds_in_columns_and_no_rounding() -> None:
    assert list(csv.reader(io.StringIO(TABLE.to_csv()))) == [
        ["name", "share_of_it", "share_of_it_low", "share_of_it_high", "n"],
        ["a", str(1 / 3), "0.1", "0.5", "7"],
        ["b", "0.25", "", "", ""],
        [HOSTILE, "", "", "", "2"],
    ]


def test_people_read_units_digits_and_intervals() -> None:
    assert TABLE.headings == ("name", "share of it (share)", "n")
    assert TABLE.texts[:2] == [("a", "0.33 (0.10 to 0.50)", "7"), ("b", "0.25", "-")]
    assert TABLE.to_text().splitlines()[1].split("  ")[0] == "a"
    assert TABLE._repr_html_().startswith("<p>Title. A note.</p><table>")


def test_no_cell_can_break_out_of_its_form() -> None:
    markdown = TABLE.to_markdown().splitlines()
    assert len({line.replace("\\|", "").count("|") for line in markdown}) == 1
    assert "<script" not in TABLE.to_markdown() + TABLE.to_html() + TABLE._repr_html_()


def test_a_data_frame_has_the_values_and_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows, columns: (columns, rows)))
    columns, rows = TABLE.to_pandas()
    assert columns == ["name", "share_of_it", "share_of_it_low", "share_of_it_high", "n"]
    assert rows[0] == ["a", 1 / 3, 0.1, 0.5, 7]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SettingsError, match="pip install pandas"):
        TABLE.to_pandas()


@pytest.mark.parametrize(
    ("cell", "digits", "words"),
    [
        (None, 3, "-"),
        ("d", 3, "d"),
        (1234, 3, "1,234"),
        (0.12345, 3, "0.123"),
        (1234.5, 0, "1,234"),
        (Estimate(0.5), 2, "0.50"),
        (Estimate(0.5, 0.25, 0.75), 2, "0.50 (0.25 to 0.75)"),
        (Estimate(-0.5, -0.75, 0.25, questions=3), 2, "-0.50 (-0.75 to 0.25 ?)"),
    ],
)
def test_a_cell_in_words(cell: Estimate | float | str | None, digits: int, words: str) -> None:
    assert format_cell(cell, digits) == words
