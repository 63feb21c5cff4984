"""The soak in a bounded form: half a minute of faults, bad clients and kills."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.soak import ITEMS, KilledServer, ModelServer, question_of, request, soak, write_documents

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")


def test_faults_and_kills_make_no_answer_wrong_and_lose_none(tmp_path: Path) -> None:
    counted = soak(tmp_path, seconds=20, clients=6, kill_seconds=10, pause=0.5, seed=1, hostile_seconds=2)
    assert (counted["wrong"], counted["lost"], counted["processes_left"]) == ([], [], 0)
    assert counted["answers"] >= 10 and counted["kills"] == 2 and sum(counted["model_faults"].values()) >= 3


def test_the_server_keeps_no_replies_that_it_refused(tmp_path: Path) -> None:
    write_documents(tmp_path)
    model = ModelServer(seed=1, thinking_seconds=0)
    model.choose = lambda: ("huge", 0.0)  # type: ignore[method-assign]
    server = KilledServer(tmp_path, model.url)
    try:
        memory = [_memory_after(server, range(first, first + 12)) for first in range(0, 144, 12)]
    finally:
        server.kill()
        model.stop()
    # Of each reply a megabyte is read. A collection of garbage is due after some dozens.
    assert max(memory[6:]) < 1.6 * memory[0]


def _memory_after(server: KilledServer, numbers: range) -> float:
    with ThreadPoolExecutor(6) as clients:
        asked = (("POST", "/v1/ask", {"question": question_of(number % ITEMS, number)}) for number in numbers)
        assert {status for status, _ in clients.map(lambda each: request(server.port, *each), asked)} == {502}
    return server.memory_mb()
