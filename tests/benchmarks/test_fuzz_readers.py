"""A damaged file of any format is read or refused, within its limits of time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from beliefrag.retrieval.documents import format_of


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_damaged_files_of_every_format_are_read_or_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.fuzz_readers", "--n", "200", "--seed", "1", "--out"]
    done = subprocess.run([*command, str(tmp_path / "out.json")], capture_output=True, text=True, check=False)
    rows = json.loads((tmp_path / "out.json").read_text("utf-8"))["formats"]
    assert done.returncode == 0, {ending: row["findings"] for ending, row in rows.items() if "findings" in row}
    assert {row["files"] for row in rows.values()} == {200}
    assert len({format_of(f"a{ending}") for ending in rows}) >= 16
