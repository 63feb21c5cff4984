"""The soak in a bounded form: half a minute of faults, bad clients and kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak import soak


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_faults_and_kills_make_no_answer_wrong_and_lose_none(tmp_path: Path) -> None:
    counted = soak(tmp_path, seconds=20, clients=6, kill_seconds=10, pause=0.5, seed=1, hostile_seconds=2)
    assert (counted["wrong"], counted["lost"], counted["processes_left"]) == ([], [], 0)
    assert counted["answers"] >= 10 and counted["kills"] == 2 and sum(counted["model_faults"].values()) >= 3
    assert counted["memory"]["last_over_first"] < 1.3
