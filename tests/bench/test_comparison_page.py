"""The page of the comparison says what its file of numbers says."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from beliefrag.methods import METHODS

RESULTS = Path(__file__).parents[2] / "docs" / "results"
DATASETS = ("hotpotqa", "2wikimultihopqa", "musique")
PAGE = (RESULTS / "comparison.md").read_text(encoding="utf-8")
LINES = (RESULTS / "comparison.csv").read_text(encoding="utf-8").splitlines()
NUMBERS = {(row["dataset"], row["method"], row["measure"]): row for row in csv.DictReader(LINES[1:])}


def number(dataset: str, method: str, measure: str, side: str = "value") -> float:
    return float(NUMBERS[dataset, method, measure][side])


def row(first: str) -> list[str]:
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


@pytest.mark.parametrize("method", ["no_rag", "static", "iterative", "crag", "beliefrag"])
def test_every_number_of_the_table_is_rounded_from_the_file(method: str) -> None:
    *f1, mean, recall, rounds, tokens, ended = row(METHODS.title(method))
    assert [cell.split(" (n")[0] for cell in f1] == [f"{number(d, method, 'f1'):.3f}" for d in DATASETS]
    sides = (number("mean", method, "f1", side) for side in ("value", "low", "high"))
    assert mean == "{:.3f} ({:.3f} to {:.3f})".format(*sides)
    for cell, measure in ((recall, "evidence_recall"), (rounds, "rounds")):
        digits = len(cell.partition(".")[2])
        assert cell == f"{number('mean', method, measure):.{digits}f}"
        assert digits or number("mean", method, measure).is_integer()
    assert tokens == f"{number('mean', method, 'tokens'):,.0f}"
    counts = [int(number("mean", method, f"outcome_{name}")) for name in ("answered", "stopped", "abstained")]
    failed = int(number("mean", method, "failed"))
    assert ended == " / ".join(map(str, counts)) + (f", {failed} failed" if failed else "")


@pytest.mark.parametrize(
    ("method", "measure"),
    [("static", "f1"), ("iterative", "f1"), ("crag", "f1"), ("no_rag", "f1"), ("iterative", "tokens")],
)
def test_the_differences_are_those_of_the_means(method: str, measure: str) -> None:
    name, digits = ("tokens", ",.0f") if measure == "tokens" else ("F1", ".3f")
    for dataset, cell in zip(DATASETS, row(f"{METHODS.title(method)}, {name}"), strict=True):
        # Where a side lacks a question the pairs are fewer, and the difference is not that of the means.
        if not re.search(r"n \d+$", cell):
            gap = number(dataset, "beliefrag", measure) - number(dataset, method, measure)
            assert cell.split(" (")[0] == f"{gap:+{digits}}"


def test_the_page_begins_with_what_the_file_begins_with_and_has_every_command() -> None:
    state = LINES[0].removeprefix("# ")
    assert state.startswith("INCOMPLETE")
    assert PAGE.index(state) < PAGE.index("Qwen2.5")
    compared = re.findall(r"^\$ beliefrag bench compare runs/comparison beliefrag (.*)$", PAGE, re.MULTILINE)
    assert compared == ["static", "iterative", "crag", "no_rag --allow-unequal"]
