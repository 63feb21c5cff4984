"""The measurement of the harness itself: that it runs, and that its figures hang together. Never how fast it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_quick_run_gives_every_figure(tmp_path: Path) -> None:
    out = tmp_path / "harness.json"
    command = [sys.executable, "-m", "benchmarks.harness", "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))

    replay = figures["replay"]
    assert replay["episodes"] == 4 * len(replay["methods"])
    low, high = replay["range"]
    assert 0 < low <= replay["episodes_per_second"] <= high

    levels = figures["throughput"]["at_once"]
    assert set(levels) == {"1", "8", "32"}
    for level in levels.values():
        assert level["episodes"] > 0 < level["ratio"]
        # No-RAG and Static ask once and the others at least once; the rest may be shared through the cache.
        assert level["calls"] >= 2 * level["episodes"] // len(replay["methods"])
        assert level["ours_processor_ms_per_call"] > 0 < level["bare_processor_ms_per_call"]
    assert levels["32"]["calls"] > levels["1"]["calls"]
    # The server takes 10 ms: one after another cannot be faster than that.
    assert levels["1"]["ours_calls_per_second"] < 100 > levels["1"]["bare_calls_per_second"]

    for run in (figures["memory"]["live"], figures["memory"]["replayed"]):
        assert 10 < run["mb_after_warm_up"] <= run["mb_at_most"] < 2_000
        assert run["mb_at_the_end"] <= run["mb_at_most"]
