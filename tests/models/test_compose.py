from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from beliefrag.errors import SettingsError, TransportError
from beliefrag.models.compose import LimitedModel, Meter, RetryingModel, RetryPolicy, compose
from beliefrag.models.openai_compatible import OpenAICompatible
from beliefrag.models.protocol import ChatModel
from tests.support.chat import Gated, ask
from tests.support.http_server import ChatServer, Response, completion, failure

FAST = RetryPolicy(attempts=3, wait_initial=0, wait_max=0, wait_jitter=0)


async def test_an_episode_pays_for_waste_once_made_and_a_replayed_one_the_same(
    chat_server: ChatServer, tmp_path: Path
) -> None:
    chat_server.play(failure(503), completion(""), completion("Paris"))
    model = compose(OpenAICompatible("m", chat_server.url), cache=tmp_path / "replies.sqlite", retry=FAST)
    assert isinstance(model, ChatModel)
    first, second = Meter(model), Meter(model)
    assert (await first.chat(ask())).text == (await second.chat(ask())).text == "Paris"
    await model.aclose()
    assert len(chat_server.requests) == 3
    assert (first.usage.tokens, first.usage.retries, first.usage.wasted_tokens) == (14, 2, 14)
    assert (first.usage.cached_calls, second.usage.cached_calls) == (0, 1)
    for field in ("calls", "tokens_in", "tokens_out", "seconds", "retries", "wasted_tokens"):
        assert getattr(first.usage, field) == getattr(second.usage, field)


async def test_a_replay_needs_neither_server_nor_key(chat_server: ChatServer, tmp_path: Path) -> None:
    file = tmp_path / "replies.sqlite"
    live = compose(OpenAICompatible("m", chat_server.url, "sk-key"), cache=file)
    await live.chat(ask())
    await live.aclose()
    chat_server.stop()
    replay = compose(OpenAICompatible("m", chat_server.url), cache=file, replay=True)
    assert (await replay.chat(ask())).text == "Paris"
    await replay.aclose()


async def test_who_waits_to_ask_again_holds_no_permit(chat_server: ChatServer) -> None:
    chat_server.play(failure(429, retry_after="30"), completion("ok"))
    model = compose(OpenAICompatible("m", chat_server.url), cache=None, retry=FAST, limit=1)
    waiting, second = (asyncio.create_task(model.chat(ask(name))) for name in ("first", "second"))
    assert (await asyncio.wait_for(second, 20)).text == "ok"
    assert not waiting.done()
    waiting.cancel()
    await model.aclose()


async def test_what_is_cached_waits_for_no_permit(tmp_path: Path) -> None:
    gated = Gated()
    gated.gate.set()
    model = compose(gated, cache=tmp_path / "replies.sqlite", retry=FAST, limit=1)
    await model.chat(ask("known"))
    gated.gate.clear()
    stuck = asyncio.create_task(model.chat(ask("new")))
    assert (await asyncio.wait_for(model.chat(ask("known")), 2)).cached
    gated.gate.set()
    await stuck
    await model.aclose()


async def test_the_limit_sees_every_429_and_not_only_the_last(chat_server: ChatServer) -> None:
    model = compose(OpenAICompatible("m", chat_server.url), cache=None, retry=FAST, limit=8)
    assert isinstance(model, RetryingModel)
    limited = model._model
    assert isinstance(limited, LimitedModel)
    while limited.permits.limit < 8:
        await asyncio.gather(*(model.chat(ask(str(n))) for n in range(20)))
    chat_server.play(failure(429), failure(429), completion("ok"))
    assert (await model.chat(ask())).retries == 2
    await model.aclose()
    assert limited.permits.limit == 2


@pytest.mark.parametrize(
    ("fault", "says"),
    [(failure(500, "oops"), "HTTP 500): oops (called 3 times)"), (failure(401), "rejected the API key")],
)
async def test_a_server_that_stays_broken_is_one_clear_error(
    chat_server: ChatServer, tmp_path: Path, fault: Response, says: str
) -> None:
    chat_server.play(fault)
    model = compose(OpenAICompatible("m", chat_server.url), cache=tmp_path / "replies.sqlite", retry=FAST)
    with pytest.raises(TransportError) as caught:
        await model.chat(ask())
    await model.aclose()
    assert says in caught.value.message


def test_a_replay_without_a_cache_makes_no_sense() -> None:
    with pytest.raises(SettingsError, match="needs a cache"):
        compose(Gated(), cache=None, replay=True)
