"""Many clients at once, and clients that leave: nothing crashes, nothing stays behind, nothing is paid for nobody."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest

from beliefrag.web.limits import ServerLimits
from tests.support.serving import ANSWER, QUESTION, events, opened, raw_post, served, wait_for

STREAM = {"Accept": "text/event-stream"}
BURST = 200


def memory() -> int:
    """Return the bytes of this process in memory: client and server both."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


async def burst(url: str) -> Counter[int]:
    """Ask many times at once, half of them streaming; return the statuses."""
    limits = httpx2.Limits(max_connections=BURST)
    async with httpx2.AsyncClient(base_url=url, timeout=60, limits=limits, verify=False) as client:
        asked = [
            client.post("/v1/ask", json={"question": f"{QUESTION} {number}"}, headers=STREAM if number % 2 else {})
            for number in range(BURST)
        ]
        statuses: Counter[int] = Counter()
        for response in await asyncio.gather(*asked):
            statuses[response.status_code] += 1
            if response.status_code == 200:
                streamed = response.headers["content-type"].startswith("text/event-stream")
                reply = events(response.text)[-1][1] if streamed else response.json()
                assert reply["answer"] == ANSWER
            else:
                assert int(response.headers["retry-after"]) >= 1
    return statuses


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
async def test_200_requests_at_once_on_a_slow_model_neither_crash_nor_leak(tmp_path: Path) -> None:
    limits = ServerLimits(concurrency=20, queue=BURST)
    with served(*opened(tmp_path, seconds=0.02), limits=limits) as server:
        idle = server.tasks()
        assert await burst(server.url) == {200: BURST}
        before = memory()
        assert await burst(server.url) == {200: BURST}
        grown = memory() - before
        assert server.model.most_inside == 20
        wait_for(lambda: server.tasks() <= idle)
        assert (server.service.admission.in_flight, server.service.admission.waiting, server.model.inside) == (0, 0, 0)
        assert grown < 4_000_000, f"memory grew by {grown:,} bytes over {BURST} requests"


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.fields for record in caplog.records if record.message == "request"]  # type: ignore[attr-defined]


CHAT: dict[str, object] = {"model": "beliefrag", "messages": [{"role": "user", "content": QUESTION}]}


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/v1/ask", {"question": QUESTION}, {}),
        ("/v1/ask", {"question": QUESTION}, STREAM),
        ("/v1/chat/completions", CHAT, {}),
        ("/v1/chat/completions", {**CHAT, "stream": True}, {}),
    ],
)
def test_a_client_that_leaves_stops_paying_for_model_calls(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, body: dict[str, object], headers: dict[str, str]
) -> None:
    caplog.set_level("INFO", "beliefrag.web")
    with served(*opened(tmp_path, seconds=300)) as server:
        idle = server.tasks()
        url = httpx2.URL(server.url)
        with socket.create_connection((url.host, url.port or 0), timeout=60) as connection:
            connection.sendall(raw_post(path, body, *(f"{name}: {value}" for name, value in headers.items())))
            wait_for(lambda: server.model.inside == 1)
        wait_for(lambda: server.model.inside == 0)
        wait_for(lambda: server.tasks() <= idle)
        assert server.model.asked == 1, "the answer was never asked for"
        assert server.service.admission.in_flight == 0
        wait_for(lambda: "499" in [str(fields["status"]) for fields in logged(caplog)])
        (line,) = logged(caplog)
        assert (line["route"], line["outcome"]) == (path, "cancelled")


def test_a_client_that_leaves_the_queue_is_never_asked_for(tmp_path: Path) -> None:
    with served(*opened(tmp_path, seconds=0.5), limits=ServerLimits(concurrency=1, queue=4)) as server:
        url = httpx2.URL(server.url)
        request = raw_post("/v1/ask", {"question": QUESTION})
        with socket.create_connection((url.host, url.port or 0), timeout=60) as first:
            first.sendall(request)
            wait_for(lambda: server.model.inside == 1)
            with socket.create_connection((url.host, url.port or 0), timeout=60) as second:
                second.sendall(request)
                wait_for(lambda: server.service.admission.waiting == 1)
            wait_for(lambda: server.service.admission.waiting == 0)
            assert first.recv(100).startswith(b"HTTP/1.1 200")
        assert server.model.asked == 2, "both calls were for the one who stayed"
