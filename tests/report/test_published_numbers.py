"""The paper's numbers: does every printed mean agree with its row?"""

from __future__ import annotations

import math

import pytest

from beliefrag.report.published import PublishedTable, published_tables

TABLES = published_tables()


def known(values: tuple[float | None, ...]) -> list[float]:
    return [value for value in values if value is not None]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_every_printed_mean_is_the_mean_of_its_row(table: PublishedTable) -> None:
    for method, row in table.rows.items():
        if row.values and row.mean is not None:
            # Cells and mean are rounded to three digits each: half a unit of the one and of the other.
            assert math.fsum(known(row.values)) / len(row.values) == pytest.approx(row.mean, abs=0.00101), method


def test_a_dash_is_nothing_rather_than_zero() -> None:
    assert TABLES["qwen_recall"].value("beliefrag", "nq") is None
    assert TABLES["qwen_recall"].value("no_rag", "nq") == 0.0
    assert TABLES["gpt_oss_judge"].value("no_rag", "nq") is None
