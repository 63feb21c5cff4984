"""`beliefrag cache`: what is recorded, whether it still holds, and moving it elsewhere."""

from __future__ import annotations

import json
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
    assert "no cache yet" in beliefrag("cache", "stats").out
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
    assert mentions(beliefrag("cache", "import", "replies.jsonl").out, f"{count} replies added", "0 were", "0 differ")
    assert mentions(beliefrag("cache", "import", "replies.jsonl").out, "0 replies added", f"{count} were known")
    line[line.index("--out") + 1] = "again"
    ran = beliefrag(*line, "--replay")
    assert (ran.code, "0 keys are missing" in ran.err) == (0, True)
    assert comparable_lines(home / "again") == comparable_lines(home / "run")


def test_an_import_never_replaces_what_is_there(beliefrag: Command, home: Path) -> None:
    played(beliefrag, home)
    beliefrag("cache", "export", "replies.jsonl")
    lines = [json.loads(line) for line in Path("replies.jsonl").read_text().splitlines()]
    lines[0]["reply"]["text"] = "something else"
    del lines[0]["seal"]
    Path("other.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "1 differ" in beliefrag("cache", "import", "other.jsonl").out
    beliefrag("cache", "export", "after.jsonl")
    assert Path("after.jsonl").read_bytes() == Path("replies.jsonl").read_bytes()


@pytest.mark.parametrize("damage", ["not json", '{"key": "x"}', '{"key":"zz","model":"m","created":1,"reply":{}}'])
def test_a_damaged_file_imports_nothing(beliefrag: Command, home: Path, damage: str) -> None:
    played(beliefrag, home)
    beliefrag("cache", "export", "replies.jsonl")
    (home.parent / "cache" / "replies.sqlite").unlink()
    text = Path("replies.jsonl").read_text()
    Path("replies.jsonl").write_text(text + damage + "\n")
    ran = beliefrag("cache", "import", "replies.jsonl")
    assert (ran.code, ran.out) == (2, "")
    assert f"Line {len(text.splitlines()) + 1} " in ran.err and "beliefrag cache export" in ran.err
    assert "replies\t0" in beliefrag("cache", "stats").out


def test_a_damaged_cache_is_set_aside_and_its_readable_replies_are_kept(beliefrag: Command, home: Path) -> None:
    line = played(beliefrag, home, "--no-judge")
    store = home.parent / "cache" / "replies.sqlite"
    store.write_bytes(b"x" * 9_000)
    ran = beliefrag(*line[:-2], "again", "--no-judge")
    assert ran.code == 0
    (aside,) = store.parent.glob("replies.sqlite.damaged-*")
    assert aside.read_bytes() == b"x" * 9_000
    assert mentions(ran.err, "damaged", aside.name)
