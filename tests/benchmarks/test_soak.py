"""The soak in a bounded form: half a minute of faults, bad clients and kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak import Tally, _find_lost, code_of, kill_times, soak


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_faults_and_kills_make_no_answer_wrong_and_lose_none(tmp_path: Path) -> None:
    counted = soak(tmp_path, seconds=20, clients=6, kill_seconds=10, pause=0.5, seed=1)
    assert (counted["wrong"], counted["lost"]) == ([], [])
    assert counted["answers"] >= 10 and counted["kills"] == 2 and sum(counted["model_faults"].values()) >= 3
    assert counted["memory"]["last_over_first"] < 1.3


def test_half_an_hour_has_fifteen_kills_however_long_the_server_takes_to_start() -> None:
    assert kill_times(1800, 120) == [120.0 * number for number in range(1, 16)]
    assert kill_times(20, 10) == [10, 20]
    assert kill_times(25, 10) == [10, 20]
    assert kill_times(5, 10) == [5]


def test_an_answer_that_was_not_stored_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Server:
        port = 0

        def start(self) -> None: ...

        def kill(self) -> None: ...

    stored = {"first": code_of(1)}
    monkeypatch.setattr("benchmarks.soak._ask_again", lambda port, text: stored.get(text, "status 502"))
    tally = Tally(answered={"first": code_of(1), "second": code_of(2)})
    assert _find_lost(Server(), tally) == ["second"]  # type: ignore[arg-type]
