"""The measurement of an interrupted run: that its own cache is cold, and that it tells a part from the whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from beliefrag.methods import METHODS
from benchmarks.interrupted import DATASETS
from tests.support.bench_runs import write_dataset, write_script
from tests.support.messages import mentions

ROOT = Path(__file__).parents[2]


def measured(home: Path, model: str, *more: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Runs it on made-up datasets with a scripted model, beside a cache of whoever starts it."""
    for name in DATASETS:
        write_dataset(home / "data", name, 2)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("BELIEFRAG_")},
        "BELIEFRAG_DATA": str(home / "data"),
        "BELIEFRAG_CACHE_DIR": str(home / "cache"),
        "BELIEFRAG_VERIFIER": "structured",
        "BELIEFRAG_CONCURRENCY": "1",
        "BELIEFRAG_BUDGET__TOP_K": "3",
    }
    out = home / "interrupted.json"
    command = [sys.executable, "-m", "benchmarks.interrupted", "--model", model, "--borrow", "published", "--n", "1"]
    command += [*more, "--work", str(home / "runs"), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300, env=environment)
    return done, json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}


def test_the_killed_run_asks_the_model_itself_and_loses_no_reply(tmp_path: Path) -> None:
    model = write_script(tmp_path)
    done, figures = measured(tmp_path, model, "--kills", "2", "--soonest", "1", "--latest", "2")
    assert done.returncode == 0, done.stderr
    assert figures["episodes"] == len(METHODS) * 8
    assert figures["killed_equals_whole"] is figures["killed_equals_replayed"] is True
    assert 0 < figures["live_calls_of_the_killed_run"] <= figures["calls_of_the_killed_run"]
    assert figures["live_calls_of_the_killed_run"] <= figures["replies_that_the_killed_run_left_in_the_cache"]
    assert figures["calls_that_the_whole_run_had_to_make_again"] == 0
    assert figures["budget_from_the_environment"] == {"BELIEFRAG_BUDGET__TOP_K": "3"}
    assert figures["command"].startswith("BELIEFRAG_BUDGET__TOP_K=3 python -m benchmarks.interrupted --model ")
    # Replies of whoever starts it are out of reach; weights are not pulled again.
    assert not (tmp_path / "cache" / "replies.sqlite").exists()
    assert (tmp_path / "runs" / "cache" / "models").resolve() == (tmp_path / "cache" / "models").resolve()


def test_a_run_that_was_given_up_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    done, figures = measured(tmp_path, f"scripted:{tmp_path / 'empty.jsonl'}", "--kills", "0")
    assert done.returncode == 1
    assert mentions(done.stderr, "killed", f"24 of {8 * len(METHODS)}")
    assert figures == {}
