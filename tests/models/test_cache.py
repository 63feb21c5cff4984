from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from beliefrag.errors import ModelError, ReplayMiss, TransportError
from beliefrag.models.cache import CachedModel, ReplyStore, reply_key
from beliefrag.models.openai_compatible import OpenAICompatible
from beliefrag.models.protocol import Message
from tests.support.chat import Gated, ask
from tests.support.http_server import ChatServer, completion
from tests.support.messages import mentions

KEY = "sk-very-secret-key-123456"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


@pytest.fixture
async def gated() -> Gated:
    gated = Gated()
    gated.gate.set()
    return gated


@pytest.fixture
async def cache(gated: Gated, path: Path) -> AsyncIterator[CachedModel]:
    cache = CachedModel(gated, path)
    yield cache
    await cache.aclose()


async def test_the_same_request_is_paid_for_once_and_costs_the_same_again(cache: CachedModel, gated: Gated) -> None:
    first = await cache.chat(ask())
    again = await cache.chat(ask())
    assert gated.asked == 1
    assert not first.cached
    assert again == dataclasses.replace(first, cached=True)
    assert (again.tokens_in, again.tokens_out, again.seconds) == (7, 2, 0.5)


@pytest.mark.parametrize(
    "other",
    [
        ask("Another question?"),
        ask(schema={"type": "object"}),
        ask(max_tokens=5),
        ask(top_logprobs=5),
        ask(sample=1),
        dataclasses.replace(ask(), messages=ask().messages[::-1]),
        dataclasses.replace(ask(), messages=(Message("user", "Answer."), ask().messages[1])),
    ],
)
async def test_whatever_shapes_a_reply_is_part_of_its_key(cache: CachedModel, gated: Gated, other: Any) -> None:
    await cache.chat(ask())
    assert not (await cache.chat(other)).cached
    assert gated.asked == 2


def test_a_request_without_stop_texts_has_the_key_that_it_had_before_there_were_any() -> None:
    request = ask("Where?", schema={"type": "object"}, max_tokens=9, top_logprobs=2, sample=1)
    assert reply_key("m", request) == "c621557d81fcd663cf0216f7bf0153e9786053d452e63f85de80e7ac2ed1a576"
    assert reply_key("m", ask("Where?")) == "368a8c75bdd8e2b8a8450cf12b8ce31328848b7c46e5b31a285665deb8280e2e"


def test_the_order_of_stop_texts_and_of_a_schema_s_fields_is_part_of_the_key() -> None:
    keys = {reply_key("m", ask(stop=stop)) for stop in [(), ("</a>",), ("</a>", "</b>"), ("</b>", "</a>")]}
    assert len(keys) == 4
    one: dict[str, Any] = {"properties": {"ids": {}, "support": {}}}
    other: dict[str, Any] = {"properties": {"support": {}, "ids": {}}}
    assert reply_key("m", ask(schema=one)) != reply_key("m", ask(schema=other))
    assert reply_key("m", ask(schema=one)) == reply_key("m", ask(schema=MappingProxyType(one)))


async def test_a_failure_is_never_stored(cache: CachedModel, gated: Gated) -> None:
    gated.failing = TransportError("busy", status=429, retryable=True)
    for _ in range(2):
        with pytest.raises(TransportError):
            await cache.chat(ask())
    gated.failing = None
    assert not (await cache.chat(ask())).cached
    assert gated.asked == 3


async def until(condition: Callable[[], bool]) -> None:
    """Wait as long as a busy machine needs."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_requests_at_the_same_time_are_asked_once(cache: CachedModel, gated: Gated) -> None:
    gated.gate.clear()
    calls = [asyncio.create_task(cache.chat(ask())) for _ in range(5)]
    await until(lambda: gated.inside == 1)
    gated.gate.set()
    replies = await asyncio.gather(*calls)
    assert gated.asked == 1
    assert [reply.cached for reply in replies] == [False, True, True, True, True]
    assert {reply.text for reply in replies} == {replies[0].text}


async def test_the_others_get_their_reply_when_the_first_to_ask_is_cancelled(cache: CachedModel, gated: Gated) -> None:
    gated.gate.clear()
    first, second, third = (asyncio.create_task(cache.chat(ask())) for _ in range(3))
    await until(lambda: gated.inside == 1)
    first.cancel()
    third.cancel()
    await asyncio.sleep(0.01)
    assert (first.cancelled(), third.cancelled(), gated.inside) == (True, True, 1)
    gated.gate.set()
    assert (await second).text.startswith("reply to")
    assert gated.asked == 2
    assert (await cache.chat(ask())).cached


async def test_a_reply_paid_for_is_stored_although_nobody_waits_for_it_any_more(
    cache: CachedModel, gated: Gated
) -> None:
    gated.gate.clear()
    call = asyncio.create_task(cache.chat(ask()))
    await until(lambda: gated.inside == 1)
    busy = threading.Event()
    cache._thread.submit(busy.wait)
    gated.gate.set()
    await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.wait([call])
    busy.set()
    assert call.cancelled()
    assert (await cache.chat(ask())).cached


async def test_a_replay_answers_from_the_cache_alone(cache: CachedModel, gated: Gated, path: Path) -> None:
    stored = await cache.chat(ask())
    replay = CachedModel(gated, path, replay=True)
    assert (await replay.chat(ask())).text == stored.text
    missing = ask("Something new?", purpose="verifier")
    for _ in range(2):
        with pytest.raises(ReplayMiss) as caught:
            await replay.chat(missing)
    assert mentions(caught.value.message, "cache", "verifier call", reply_key("gated:1", missing)[:12])
    assert "without replay" in caught.value.remedy
    assert (len(replay.missing_keys), gated.asked) == (1, 1)
    await replay.aclose()


async def test_a_reply_that_cannot_be_stored_is_returned_with_one_warning(
    cache: CachedModel, gated: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    await cache.chat(ask("stored"))
    assert isinstance(cache._store, ReplyStore)
    pages = cache._store._db.execute("PRAGMA page_count").fetchone()[0]
    cache._store._db.execute(f"PRAGMA max_page_count = {pages}")
    with caplog.at_level(logging.WARNING):
        replies = [await cache.chat(ask(str(n) * 9000)) for n in range(8)]
    assert all(len(reply.text) > 9000 for reply in replies)
    assert len(caplog.records) == 1
    assert "disk is full" in caplog.text
    assert (await cache.chat(ask("stored"))).cached


async def test_a_cache_that_cannot_be_read_is_an_error_and_not_a_second_payment(
    cache: CachedModel, gated: Gated
) -> None:
    assert isinstance(cache._store, ReplyStore)
    cache._store._db.execute("DROP TABLE replies")
    with pytest.raises(ModelError, match="no such table"):
        await cache.chat(ask())
    assert gated.asked == 0


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_neither_keys_nor_passwords_reach_the_file(chat_server: ChatServer, path: Path) -> None:
    chat_server.play(completion("a reply to be found"))
    url = f"http://me:hunter2@{chat_server.host}/v1?sig=abcdefgh"
    cache = CachedModel(OpenAICompatible("m", url, KEY), path)
    await cache.chat(ask())
    on_disk = everything_in(path.parent)
    await cache.aclose()
    on_disk += everything_in(path.parent)
    assert b"a reply to be found" in on_disk
    for secret in (KEY, "hunter2", "abcdefgh"):
        assert secret.encode() not in on_disk
