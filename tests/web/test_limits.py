"""Bodies, questions, time and places are limited, and questions wait in their order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from beliefrag.cli.serve import LimitOptions
from beliefrag.settings import Settings
from beliefrag.web.limits import ServerLimits
from beliefrag.web.service import AdmissionQueue, Waiting
from tests.support.messages import mentions
from tests.support.serving import ANSWER, QUESTION, Served, events, opened, served, wait_for

STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = ServerLimits(request_bytes=500, question_chars=100, body_seconds=0.3)
    with served(*opened(tmp_path_factory.mktemp("small")), limits=limits) as server:
        yield server


def test_a_body_that_says_that_it_is_too_large_is_not_read(small: Served) -> None:
    url = httpx2.URL(small.url)
    with socket.create_connection((url.host, url.port or 0), timeout=60) as connection:
        connection.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_chunked_body_is_stopped_where_it_becomes_too_large(small: Served) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield b'{"question": "'
        while True:
            sent += 100
            yield b"x" * 100

    with small.client() as client:
        try:
            response = client.post("/v1/ask", content=endless(), headers={"Content-Type": "application/json"})
            assert response.status_code == 413
        except (httpx2.WriteError, httpx2.RemoteProtocolError):
            pass  # it hung up while we were still sending
    assert sent < 50_000_000
    assert small.model.asked == 0


def test_a_body_that_trickles_in_is_given_up_on(small: Served) -> None:
    url = httpx2.URL(small.url)
    with socket.create_connection((url.host, url.port or 0), timeout=60) as connection:
        connection.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_a_question_has_a_longest_length(small: Served) -> None:
    assert small.ask("x" * 100).status_code == 200
    response = small.ask("x" * 101)
    assert response.status_code == 422
    assert mentions(response.json()["detail"], "question", "101 characters")
    assert mentions(response.json()["remedy"], "at most 100")


def test_a_question_that_takes_too_long_is_cancelled(tmp_path: Path) -> None:
    with served(*opened(tmp_path, seconds=300), limits=ServerLimits(timeout=0.3)) as server:
        response = server.ask()
        assert response.status_code == 504
        assert "0.3 seconds" in response.json()["detail"]
        assert server.model.inside == 0
        name, problem = events(server.ask(headers=STREAM).text)[-1]
        assert (name, problem["status"]) == ("error", 504)
        assert server.model.inside == 0
        assert server.model.asked == 2


def test_places_and_queue_are_limited_and_the_rest_is_told_when_to_come_back(tmp_path: Path) -> None:
    with served(*opened(tmp_path, seconds=0.4), limits=ServerLimits(concurrency=2, queue=1)) as server:
        with ThreadPoolExecutor(8) as pool:
            accepted = [pool.submit(server.ask) for _ in range(3)]
            wait_for(lambda: (server.service.admission.in_flight, server.service.admission.waiting) == (2, 1))
            refused = [pool.submit(server.ask, headers=headers) for headers in ({}, STREAM)]
            for response in (each.result() for each in refused):
                assert response.status_code == 429
                assert response.headers["content-type"] == "application/problem+json"
                assert response.headers["retry-after"] == "5"
                assert {"2", "1"} < set(response.json()["detail"].split())
            assert {each.result().status_code for each in accepted} == {200}
        assert server.model.most_inside == 2
        assert server.ask().status_code == 200, "places are free again"


def test_the_server_is_not_ready_while_its_model_fails_and_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {"purpose": "verifier", "error": {"status": 503}}
    with served(*opened(tmp_path, broken)) as server, server.client() as client:
        assert client.get("/readyz").json() == {"status": "ready", "model": True, "index": True}
        assert client.post("/v1/ask", json={"question": QUESTION}).status_code == 502
        response = client.get("/readyz")
        assert (response.status_code, response.json()["status"], response.json()["model"]) == (503, "not ready", False)
        monkeypatch.setattr("beliefrag.web.service._RETRY_MODEL_AFTER", 0.0)
        assert client.get("/readyz").status_code == 200


def test_the_server_is_not_ready_while_searches_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefrag.web.health._CHECK_INTERVAL", 0.0)
    assembly, settings = opened(tmp_path)
    with served(assembly, settings) as server, server.client() as client:
        assert client.get("/readyz").status_code == 200

        def fails(query: str, k: int) -> None:
            raise RuntimeError("the disk is gone")

        monkeypatch.setattr(type(assembly.harness.retriever), "search", lambda self, query, k: fails(query, k))
        response = client.get("/readyz")
        assert (response.status_code, response.json()["index"]) == (503, False)
        assert "disk" not in response.text


async def test_who_waits_is_told_the_place_and_begins_in_order() -> None:
    gate = AdmissionQueue(1, 4)
    told: dict[str, list[Waiting]] = {"first": [], "second": [], "third": []}
    begun: list[str] = []
    leave = {name: asyncio.Event() for name in told}

    async def come(name: str) -> None:
        async with gate.place(told[name].append):
            begun.append(name)
            await leave[name].wait()

    tasks = []
    for name in told:
        tasks.append(asyncio.create_task(come(name)))
        await asyncio.sleep(0)
    assert told == {"first": [Waiting(0)], "second": [Waiting(1)], "third": [Waiting(2)]}
    leave["first"].set()
    await asyncio.sleep(0.01)
    assert begun == ["first", "second"]
    assert told["third"][-1] == Waiting(1)
    leave["second"].set()
    leave["third"].set()
    await asyncio.gather(*tasks)
    assert begun == ["first", "second", "third"]
    assert (gate.in_flight, gate.waiting) == (0, 0)


async def test_who_comes_later_never_overtakes_when_a_place_is_free_for_a_moment() -> None:
    gate = AdmissionQueue(1, 4)
    begun: list[int] = []

    async def come(number: int) -> None:
        async with gate.place():
            begun.append(number)
            await asyncio.sleep(0)

    async def come_at_the_end() -> None:
        async with gate.place():
            tasks.extend(asyncio.create_task(come(number)) for number in (1, 2))
            await asyncio.sleep(0)
        tasks.append(asyncio.create_task(come(3)))

    tasks: list[asyncio.Task[None]] = []
    await come_at_the_end()
    await asyncio.gather(*tasks)
    assert begun == [1, 2, 3]


def test_all_who_ask_at_once_get_answers_although_they_wait_longer_than_one_question_may_take(tmp_path: Path) -> None:
    people, limits = 8, ServerLimits(concurrency=1, queue=16, timeout=1.0)
    with served(*opened(tmp_path, seconds=0.1), limits=limits) as server, ThreadPoolExecutor(people) as pool:
        replies = list(pool.map(lambda number: server.ask(f"{QUESTION} {number}"), range(people)))
    assert [(reply.status_code, reply.json().get("answer")) for reply in replies] == [(200, ANSWER)] * people


def _hold_the_place(server: Served, pool: ThreadPoolExecutor) -> None:
    pool.submit(server.ask)
    wait_for(lambda: server.service.admission.in_flight == 1)


def test_a_stream_begins_with_the_place_in_the_queue(tmp_path: Path) -> None:
    limits = ServerLimits(concurrency=1, queue=4)
    with served(*opened(tmp_path, seconds=0.3), limits=limits) as server, ThreadPoolExecutor(2) as pool:
        _hold_the_place(server, pool)
        waited = server.ask(headers=STREAM)
    (first, data), (second, _), *_ = events(waited.text)
    assert (first, second) == ("waiting", "started")
    assert data == {"place": 1}
    assert events(waited.text)[-1][1]["answer"] == ANSWER


@pytest.mark.parametrize(
    ("options", "model", "expected"),
    [
        (LimitOptions(), "local:qwen2.5-coder-1.5b", (1, 900.0)),
        (LimitOptions(), "gpt-5", (4, 120.0)),
        (LimitOptions(concurrency=3, timeout=5.0), "local:qwen2.5-coder-1.5b", (3, 5.0)),
    ],
)
def test_places_and_time_fit_the_model_unless_they_are_given(
    options: LimitOptions, model: str, expected: tuple[int, float]
) -> None:
    limits = options.for_server(Settings(model=model))
    assert (limits.concurrency, limits.timeout) == expected
