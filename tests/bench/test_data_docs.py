"""docs/data.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from beliefrag.bench.datasets import DATASET_FORMATS, all_formats

TEXT = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def test_the_table_lists_every_format_with_its_licence() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in TEXT.splitlines() if line.startswith("| `")]
    listed = {row[0].strip("`"): (row[1], row[3], row[5]) for row in rows if len(row) == 6}
    assert listed == {known.name: (known.title, known.licence, "yes" if known.hub else "no") for known in all_formats()}


def test_every_command_names_a_format_and_exists() -> None:
    commands = re.findall(r"^beliefrag data (\w+) ?(\S*)", TEXT, re.MULTILINE)
    assert {command for command, _ in commands} == {"list", "import"}
    assert all(name in DATASET_FORMATS for command, name in commands if command in ("import", "get"))
