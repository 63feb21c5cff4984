"""Questions wait in the open: each is told its place and the likely wait, and its time begins with its own turn."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from beliefrag.cli.serve import LimitOptions, McpLimitOptions
from beliefrag.settings import Settings
from beliefrag.web.admission import AdmissionQueue, Waiting
from beliefrag.web.limits import ServerLimits
from tests.support.serving import ANSWER, QUESTION, Served, events, opened, served, wait_for

STREAM = {"Accept": "text/event-stream"}


async def test_who_waits_is_told_the_place_and_the_wait_and_begins_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    # Only the queue's clock: the event loop needs its own.
    monkeypatch.setattr("beliefrag.web.admission.time", SimpleNamespace(monotonic=lambda: now))
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
    assert told == {"first": [Waiting(0, 0)], "second": [Waiting(1, None)], "third": [Waiting(2, None)]}
    now += 20
    leave["first"].set()
    await asyncio.sleep(0.01)
    assert begun == ["first", "second"]
    assert told["third"][-1] == Waiting(1, 20), "the first episode took 20 s, and the second has just begun"
    now += 15
    assert gate.retry_after() == 25, "5 s for the second, then 20 s for the third"
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


async def test_a_wait_in_silence_is_broken_by_news_again_and_again() -> None:
    gate = AdmissionQueue(1, 1, notice_seconds=0.02)
    told: list[Waiting] = []

    async def wait() -> None:
        async with gate.place(told.append):
            pass

    async with gate.place():
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0.2)
    await waiting
    assert len(told) >= 3


@pytest.mark.parametrize("people", [2, 5, 10])
def test_all_who_ask_at_once_get_answers_although_they_wait_longer_than_one_question_may_take(
    tmp_path: Path, people: int
) -> None:
    limits = ServerLimits(concurrency=1, queue=16, timeout=2.5)
    with served(*opened(tmp_path, seconds=0.25), limits=limits) as server, ThreadPoolExecutor(people) as pool:
        replies = list(pool.map(lambda number: server.ask(f"{QUESTION} {number}"), range(people)))
    assert [(reply.status_code, reply.json().get("answer")) for reply in replies] == [(200, ANSWER)] * people
    assert sorted(int(reply.headers["x-queue-place"]) for reply in replies) == list(range(people))


def test_the_time_limit_still_ends_an_episode_that_takes_too_long(tmp_path: Path) -> None:
    limits = ServerLimits(concurrency=1, queue=4, timeout=0.3)
    with served(*opened(tmp_path, seconds=30), limits=limits) as server, ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(lambda _: server.ask(), range(2)))
    assert [reply.status_code for reply in replies] == [504, 504]
    assert "0.3" in replies[0].json()["detail"]


def _hold_the_place(server: Served, pool: ThreadPoolExecutor) -> None:
    pool.submit(server.ask)
    wait_for(lambda: server.service.admission.in_flight == 1)


def test_a_stream_begins_with_the_place_and_the_expected_wait_and_a_header_has_them_too(tmp_path: Path) -> None:
    limits = ServerLimits(concurrency=1, queue=4)
    with served(*opened(tmp_path, seconds=0.3), limits=limits) as server, ThreadPoolExecutor(2) as pool:
        assert server.ask().headers["x-queue-place"] == "0"
        _hold_the_place(server, pool)
        waited = server.ask(headers=STREAM)
    assert (waited.headers["x-queue-place"], waited.headers["x-queue-seconds"]) == ("1", "1")
    (first, data), (second, _), *_ = events(waited.text)
    assert (first, second) == ("waiting", "started")
    assert data == {"place": 1, "expected_seconds": 1}
    assert events(waited.text)[-1][1]["answer"] == ANSWER


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": QUESTION}]}),
        ("/v1/responses", {"input": QUESTION}),
    ],
)
def test_clients_of_the_other_api_get_the_place_as_a_comment(
    tmp_path: Path, path: str, body: dict[str, object]
) -> None:
    limits = ServerLimits(concurrency=1, queue=4)
    with served(*opened(tmp_path, seconds=0.3), limits=limits) as server, ThreadPoolExecutor(2) as pool:
        _hold_the_place(server, pool)
        with server.client() as client:
            reply: httpx2.Response = client.post(path, json={"model": "beliefrag", "stream": True, **body})
    assert "\n: waiting, place 1\n" in reply.text
    assert reply.headers["x-queue-place"] == "1"
    assert ANSWER in reply.text


@pytest.mark.parametrize(
    ("options", "model", "expected"),
    [
        (LimitOptions(), "local:qwen2.5-coder-1.5b", (1, 900.0)),
        (LimitOptions(), "gpt-5", (4, 120.0)),
        (McpLimitOptions(), "local:some.gguf", (1, 900.0)),
        (McpLimitOptions(), "gpt-5", (4, 300.0)),
        (LimitOptions(concurrency=3, timeout=5.0), "local:qwen2.5-coder-1.5b", (3, 5.0)),
    ],
)
def test_places_and_time_fit_the_model_unless_they_are_given(
    options: LimitOptions, model: str, expected: tuple[int, float]
) -> None:
    limits = options.for_server(Settings(model=model))
    assert (limits.concurrency, limits.timeout) == expected
