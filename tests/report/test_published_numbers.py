"""The paper's numbers: do they agree with one another, and with what the paper claims of them?"""

from __future__ import annotations

import math

import pytest

from beliefrag.report.published import PublishedTable, published_numbers, published_tables

TABLES = published_tables()
FIGURES = published_numbers()


def known(values: tuple[float | None, ...]) -> list[float]:
    return [value for value in values if value is not None]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_every_printed_mean_is_the_mean_of_its_row(table: PublishedTable) -> None:
    for method, row in table.rows.items():
        if row.values and row.mean is not None:
            # Cells and mean are rounded to three digits each: half a unit of the one and of the other.
            assert math.fsum(known(row.values)) / len(row.values) == pytest.approx(row.mean, abs=0.00101), method


@pytest.mark.parametrize("name", ["gpt_oss", "qwen"])
def test_exact_match_is_never_above_f1(name: str) -> None:
    f1, exact = TABLES[f"{name}_f1"], TABLES[f"{name}_exact_match"]
    for method in exact.rows:
        for dataset in exact.datasets:
            assert (exact.value(method, dataset) or 0) <= (f1.value(method, dataset) or 0), (method, dataset)


def test_the_two_tables_of_tokens_agree() -> None:
    short, long = TABLES["gpt_oss_main_tokens"], TABLES["gpt_oss_tokens"]
    for method, row in long.rows.items():
        mean = short.rows[method].mean
        assert mean is not None and row.mean is not None
        assert row.mean == pytest.approx(mean, abs=0.0051), method


def test_the_claims_follow_from_the_tables() -> None:
    for name, tokens, saved, datasets in (
        ("gpt_oss", "gpt_oss_main_tokens", "tokens_saved_gpt_oss", 4),
        ("qwen", "qwen_tokens", "tokens_saved_qwen", 5),
    ):
        f1 = TABLES[f"{name}_f1"]
        ours, theirs = TABLES[tokens].rows["beliefrag"].mean, TABLES[tokens].rows["iterative"].mean
        assert ours is not None and theirs is not None
        assert 1 - ours / theirs == pytest.approx(FIGURES[saved].value, abs=0.005)
        higher = sum(
            (f1.value("beliefrag", dataset) or 0) > (f1.value("iterative", dataset) or 0) for dataset in f1.datasets
        )
        assert higher == datasets
        assert max(f1.rows, key=lambda method: f1.rows[method].mean or 0) == "beliefrag"


def test_a_dash_is_nothing_rather_than_zero() -> None:
    assert TABLES["qwen_recall"].value("beliefrag", "nq") is None
    assert TABLES["qwen_recall"].value("no_rag", "nq") == 0.0
    assert TABLES["gpt_oss_judge"].value("no_rag", "nq") is None
