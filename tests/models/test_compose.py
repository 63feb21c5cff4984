"""The layers around a model: their order, the retries and the limit."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beliefrag.errors import ReplyError, SettingsError, TransportError
from beliefrag.models.compose import LimitedModel, Meter, RetryingModel, RetryPolicy, compose
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.openai_compatible import OpenAICompatible
from beliefrag.models.protocol import ChatModel
from beliefrag.models.scripted import Scripted
from tests.support.chat import Gated, ask, script
from tests.support.http_server import ChatServer, Request, Response, completion, failure

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


def test_a_replay_without_a_cache_makes_no_sense() -> None:
    with pytest.raises(SettingsError, match="needs a cache"):
        compose(Gated(), cache=None, replay=True)


AT_ONCE = RetryPolicy(attempts=4, wait_initial=0, wait_max=0, wait_jitter=0)
PROMPT_TOKENS = 12


def line(reply: str | None = None, status: int | None = None, **error: Any) -> dict[str, Any]:
    if status is None:
        return {"purpose": "answer", "reply": reply}
    return {"purpose": "answer", "error": {"status": status, **error}}


def retrying(folder: Path, *lines: dict[str, Any], policy: RetryPolicy = AT_ONCE) -> RetryingModel:
    return RetryingModel(Scripted(script(folder, *lines)), policy)


async def test_an_empty_generation_is_asked_again_once_and_its_tokens_are_wasted(tmp_path: Path) -> None:
    reply = await retrying(tmp_path, line(""), line("Paris")).chat(ask("Where?"))
    assert (reply.text, reply.retries, reply.wasted_tokens) == ("Paris", 1, PROMPT_TOKENS)
    assert (reply.tokens_in, reply.tokens_out) == (PROMPT_TOKENS, 1)


async def test_a_second_empty_generation_is_an_error_with_all_that_was_wasted(tmp_path: Path) -> None:
    model = retrying(tmp_path, line(""), line(status=500), line(""), line("too late"))
    with pytest.raises(EmptyReplyError) as caught:
        await model.chat(ask("Where?"))
    assert (caught.value.retries, caught.value.wasted_tokens) == (2, 2 * PROMPT_TOKENS)


async def test_after_the_last_attempt_the_error_says_how_often_it_was_asked(tmp_path: Path) -> None:
    model = retrying(tmp_path, *[line(status=500)] * 4, line("too late"))
    with pytest.raises(TransportError, match=r"HTTP 500\) \(called 4 times\)") as caught:
        await model.chat(ask())
    assert caught.value.status == 500


async def test_the_wait_that_the_server_asks_for_is_kept(tmp_path: Path) -> None:
    model = retrying(tmp_path, line(status=429, retry_after=0.2), line("Paris"))
    started = time.monotonic()
    assert (await model.chat(ask())).retries == 1
    assert 0.2 <= time.monotonic() - started < 2


async def test_patience_does_not_run_while_a_call_waits_for_its_first_turn() -> None:
    gated = Gated()
    gated.failing = TransportError("busy", retryable=True)
    call = asyncio.create_task(
        RetryingModel(gated, RetryPolicy(2, seconds=0.05, wait_initial=0, wait_jitter=0)).chat(ask())
    )
    await asyncio.sleep(0.1)
    gated.gate.set()
    with pytest.raises(TransportError):
        await call
    assert gated.asked == 2


GOOD = None
BUSY = TransportError("busy", status=429, retryable=True)
FAILED = TransportError("failed", status=503, retryable=True)
UNKNOWN = ReplyError("refused")


def limited(cap: int = 16) -> LimitedModel:
    return LimitedModel(Gated(), cap=cap)


async def window(permits: LimitedModel, *outcomes: Exception | None) -> int:
    """Use as many permits at a time as there are outcomes, and return the new limit."""
    held = [await permits.acquire() for _ in outcomes]
    for number, outcome in zip(held, outcomes, strict=True):
        permits.release(number, outcome)
    return permits.limit


async def grown(to: int, cap: int = 16) -> LimitedModel:
    permits = limited(cap)
    while permits.limit < to:
        await window(permits, *[GOOD] * permits.limit)
    return permits


async def crowded(permits: LimitedModel, windows: int) -> list[int]:
    """Return the limit after each window of good replies, where more calls are waiting than can ever be made."""
    waiting = deque(asyncio.create_task(permits.acquire()) for _ in range(permits._cap * windows))
    await asyncio.sleep(0)
    limits = []
    for _ in range(windows):
        for _ in range(permits._held):
            permits.release(await waiting.popleft(), GOOD)
        await asyncio.sleep(0)
        limits.append(permits.limit)
    for task in waiting:
        task.cancel()
    return limits


async def test_good_replies_double_the_limit_until_the_server_first_objects() -> None:
    assert await crowded(limited(32), 6) == [2, 4, 8, 16, 32, 32]


async def test_many_429s_of_the_same_window_halve_it_once() -> None:
    permits = await grown(to=8)
    assert await window(permits, *[BUSY] * 8) == 4


class Watched(LimitedModel):
    """Checks every permit that is given or taken back."""

    @property
    def _held(self) -> int:
        return self.count

    @_held.setter
    def _held(self, count: int) -> None:
        given = count > getattr(self, "count", 0)
        assert count >= 0
        assert not given or count <= self.limit
        self.count = count


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 7),
    st.lists(st.tuples(st.sampled_from([GOOD, BUSY, FAILED, UNKNOWN]), st.booleans()), min_size=1, max_size=60),
    st.integers(0, 2**32 - 1),
)
def test_whatever_happens_the_limit_holds_and_no_permit_is_lost(
    cap: int, calls: list[tuple[Exception | None, bool]], seed: int
) -> None:
    dice = random.Random(seed)
    inside = 0

    async def call(permits: LimitedModel, outcome: BaseException | None) -> None:
        nonlocal inside
        number = await permits.acquire()
        inside += 1
        try:
            assert inside <= permits._held
            assert 1 <= permits.limit <= cap
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            outcome = error
            raise
        finally:
            inside -= 1
            permits.release(number, outcome)

    async def run() -> None:
        permits = Watched(Gated(), cap=cap)
        tasks = []
        for outcome, doomed in calls:
            tasks.append(asyncio.create_task(call(permits, outcome)))
            for _ in range(dice.randrange(3)):
                await asyncio.sleep(0)
            if doomed:
                dice.choice(tasks).cancel()
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert all(o is None or isinstance(o, asyncio.CancelledError) for o in outcomes), outcomes
        assert (permits._held, inside) == (0, 0)
        for _ in range(permits.limit):
            await asyncio.wait_for(permits.acquire(), 1)
        assert permits._held == permits.limit >= 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "limit", "holds"),
    [
        (BUSY, 4, False),
        (FAILED, 8, True),
        (TransportError("timed out", retryable=True), 8, True),
        (TransportError("bad key", status=401), 8, False),
        (UNKNOWN, 8, False),
    ],
)
async def test_each_failure_is_counted_as_what_it_is(error: Exception, limit: int, holds: bool) -> None:
    permits = await grown(to=8)
    gated = permits._model
    assert isinstance(gated, Gated)
    gated.failing = error
    gated.gate.set()
    with pytest.raises(type(error)):
        await permits.chat(ask())
    assert permits.limit == limit
    assert bool(permits._good_before_growth) is holds
    assert permits._held == 0


async def test_a_server_that_takes_three_at_a_time_is_found_out_and_all_calls_get_through(
    chat_server: ChatServer,
) -> None:
    def answer(request: Request) -> Response:
        busy = chat_server.open > 3
        return failure(429, "too many at once", retry_after="0.01") if busy else completion("ok", delay=0.01)

    chat_server.play(answer)
    limited = LimitedModel(OpenAICompatible("m", chat_server.url), cap=64)
    model = RetryingModel(limited, RetryPolicy(attempts=50, wait_initial=0, wait_max=0.05, wait_jitter=0.01))
    replies: list[Any] = await asyncio.gather(*(model.chat(ask(str(n))) for n in range(80)))
    await model.aclose()
    assert [reply.text for reply in replies] == ["ok"] * 80
    assert 80 < len(chat_server.requests) < 160
    assert 3 < chat_server.most_at_once < 16
