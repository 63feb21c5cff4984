"""docs/data.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from beliefrag.bench.datasets import all_formats

TEXT = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def test_the_table_lists_every_format_with_its_licence() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TEXT.splitlines() if line.startswith("| `")]
    listed = {row[0].strip("`"): (row[1], row[3], row[5]) for row in rows if len(row) == 6}
    assert listed == {known.name: (known.title, known.licence, "yes" if known.hub else "no") for known in all_formats()}
