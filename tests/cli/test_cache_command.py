"""`beliefrag cache`: what is recorded, whether it still holds, and moving it elsewhere."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.runs.run_files import comparable_lines
from tests.cli.shell import Ran
from tests.support.bench_runs import write_dataset, write_script
from tests.support.messages import mentions

Command = Callable[..., Ran]


def played(beliefrag: Command, home: Path, *more: str) -> list[str]:
    if not (home / "north").exists():
        write_dataset(home, "north", 4)
    model = write_script(home)
    line = ["bench", "run", "--data", "north", "--methods", "static,iterative", "--model", model, "--out", "run", *more]
    assert beliefrag(*line).code == 0
    return line


def test_stats_count_replies_by_model(beliefrag: Command, home: Path) -> None:
    assert "cache is empty" in beliefrag("cache", "stats").out
    played(beliefrag, home, "--no-judge")
    rows = dict(line.split("\t") for line in beliefrag("cache", "stats").out.splitlines())
    assert int(rows["replies"]) > 4
    model = next(name for name in rows if name.startswith("scripted:"))
    assert rows[model] == rows["replies"]


def test_an_exported_cache_replays_the_run_elsewhere(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = played(beliefrag, home)
    assert "replies written to replies.jsonl" in beliefrag("cache", "export", "replies.jsonl").out
    assert beliefrag("cache", "export", "replies.jsonl").code == 2
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(home / "elsewhere"))
    count = len(Path("replies.jsonl").read_text().splitlines())
    first = beliefrag("cache", "import", "replies.jsonl").out
    assert mentions(first, f"{count} replies added", "0 known", "0 different")
    packed = gzip.compress(Path("replies.jsonl").read_bytes())
    Path("replies.jsonl.gz").write_bytes(packed)
    assert mentions(beliefrag("cache", "import", "replies.jsonl.gz").out, "0 replies added", f"{count} known")
    for broken in (packed[:-20], b"no gzip"):
        Path("replies.jsonl.gz").write_bytes(broken)
        ran = beliefrag("cache", "import", "replies.jsonl.gz")
        assert ran.code == 2 and mentions(ran.err, "replies.jsonl.gz is a broken gzip file")
    line[line.index("--out") + 1] = "again"
    ran = beliefrag(*line, "--replay")
    assert (ran.code, "0 keys are missing" in ran.err) == (0, True)
    assert comparable_lines(home / "again") == comparable_lines(home / "run")
