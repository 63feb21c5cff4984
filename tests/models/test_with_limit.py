from __future__ import annotations

import asyncio
import random
from collections import deque
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beliefrag.errors import ReplyError, SettingsError, TransportError
from beliefrag.models.compose import CallOutcome, LimitedModel, Permits, RetryingModel, RetryPolicy
from beliefrag.models.openai_compatible import OpenAICompatible
from beliefrag.models.protocol import ChatReply, ChatRequest
from tests.support.chat import Gated, ask
from tests.support.http_server import ChatServer, Request, Response, completion, failure


async def window(permits: Permits, *signs: CallOutcome) -> int:
    """Uses as many permits at a time as there are signs, gives them back, and tells the new limit."""
    held = [await permits.acquire() for _ in signs]
    for number, sign in zip(held, signs, strict=True):
        permits.release(number, sign)
    return permits.limit


async def grown(to: int, cap: int = 16) -> Permits:
    permits = Permits(1, cap)
    while permits.limit < to:
        await window(permits, *[CallOutcome.ANSWERED] * permits.limit)
    return permits


async def test_it_starts_at_the_floor() -> None:
    permits = Permits(3, 8)
    assert (permits.limit, permits.held) == (3, 0)


async def crowded(permits: Permits, windows: int) -> list[int]:
    """The limit after each window of good replies, where more calls are waiting than can ever be made."""
    waiting = deque(asyncio.create_task(permits.acquire()) for _ in range(permits._cap * windows))
    await asyncio.sleep(0)
    limits = []
    for _ in range(windows):
        for _ in range(permits.held):
            permits.release(await waiting.popleft(), CallOutcome.ANSWERED)
        await asyncio.sleep(0)
        limits.append(permits.limit)
    for task in waiting:
        task.cancel()
    return limits


async def test_good_replies_double_the_limit_until_the_server_first_objects() -> None:
    assert await crowded(Permits(1, 32), 6) == [2, 4, 8, 16, 32, 32]


@pytest.mark.parametrize("objection", [CallOutcome.BUSY, CallOutcome.FAILED])
async def test_after_that_full_windows_of_good_replies_add_about_one_each_up_to_the_cap(objection: CallOutcome) -> None:
    permits = Permits(1, 6)
    permits.release(await permits.acquire(), objection)
    limits = await crowded(permits, 12)
    assert limits == sorted(limits)
    assert all(later - sooner <= 1 for sooner, later in pairwise(limits))
    assert limits[-1] == 6


async def test_a_server_that_is_hardly_used_says_nothing_about_a_higher_limit() -> None:
    permits = await grown(to=4)
    for _ in range(100):
        await window(permits, CallOutcome.ANSWERED)
    assert permits.limit == 4


async def test_a_429_halves_the_limit_but_never_below_the_floor() -> None:
    permits = await grown(to=8)
    assert [await window(permits, CallOutcome.BUSY) for _ in range(5)] == [4, 2, 1, 1, 1]


async def test_many_429s_of_the_same_window_halve_it_once() -> None:
    permits = await grown(to=8)
    assert await window(permits, *[CallOutcome.BUSY] * 8) == 4


async def test_a_failure_holds_growth_for_one_window() -> None:
    permits = await grown(to=2)
    assert await window(permits, CallOutcome.FAILED) == 2
    size = permits._size
    await window(permits, CallOutcome.ANSWERED, CallOutcome.ANSWERED)
    assert permits._size == size
    await window(permits, CallOutcome.ANSWERED, CallOutcome.ANSWERED)
    assert permits._size > size


async def test_permits_are_given_in_the_order_of_asking() -> None:
    permits = Permits(1, 1)
    order: list[int] = []

    async def one(number: int) -> None:
        held = await permits.acquire()
        order.append(number)
        await asyncio.sleep(0)
        permits.release(held, CallOutcome.ANSWERED)

    await asyncio.gather(*(one(number) for number in range(20)))
    assert order == list(range(20))


async def test_a_permit_given_to_somebody_who_was_just_cancelled_is_not_lost() -> None:
    permits = Permits(1, 1)
    held = await permits.acquire()
    unlucky, next_one = (asyncio.create_task(permits.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    permits.release(held, CallOutcome.ANSWERED)
    unlucky.cancel()
    assert await asyncio.wait_for(next_one, 1) == 0
    assert unlucky.cancelled()
    assert permits.held == 1


class Watched(Permits):
    """Looks at every permit that is given or taken back."""

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
    st.integers(1, 3),
    st.integers(0, 6),
    st.lists(st.tuples(st.sampled_from(list(CallOutcome)), st.booleans()), min_size=1, max_size=60),
    st.integers(0, 2**32 - 1),
)
def test_whatever_happens_the_limit_holds_and_no_permit_is_lost(
    floor: int, above: int, calls: list[tuple[CallOutcome, bool]], seed: int
) -> None:
    dice = random.Random(seed)
    inside = 0

    async def call(permits: Permits, sign: CallOutcome) -> None:
        nonlocal inside
        number = await permits.acquire()
        inside += 1
        try:
            assert inside <= permits.held
            assert floor <= permits.limit <= floor + above
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            sign = CallOutcome.UNKNOWN
            raise
        finally:
            inside -= 1
            permits.release(number, sign)

    async def run() -> None:
        permits = Watched(floor, floor + above)
        tasks = []
        for sign, doomed in calls:
            tasks.append(asyncio.create_task(call(permits, sign)))
            for _ in range(dice.randrange(3)):
                await asyncio.sleep(0)
            if doomed:
                dice.choice(tasks).cancel()
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert all(o is None or isinstance(o, asyncio.CancelledError) for o in outcomes), outcomes
        assert (permits.held, inside) == (0, 0)
        for _ in range(permits.limit):
            await asyncio.wait_for(permits.acquire(), 1)
        assert permits.held == permits.limit >= 1

    asyncio.run(run())


@pytest.mark.parametrize(("floor", "cap"), [(0, 4), (5, 4), (-1, -1)])
def test_limits_that_make_no_sense_are_refused(floor: int, cap: int) -> None:
    with pytest.raises(SettingsError):
        Permits(floor, cap)


class Failing:
    identity = "failing"

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise self.error

    async def aclose(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "limit", "holds"),
    [
        (TransportError("busy", status=429, retryable=True), 4, False),
        (TransportError("failed", status=503, retryable=True), 8, True),
        (TransportError("timed out", retryable=True), 8, True),
        (TransportError("bad key", status=401), 8, False),
        (ReplyError("refused"), 8, False),
    ],
)
async def test_each_failure_is_read_as_the_right_sign(error: Exception, limit: int, holds: bool) -> None:
    layer = LimitedModel(Failing(error))
    layer.permits = await grown(to=8)
    with pytest.raises(type(error)):
        await layer.chat(ask())
    assert layer.permits.limit == limit
    assert bool(layer.permits._good_before_growth) is holds
    assert layer.permits.held == 0


async def test_calls_beyond_the_limit_wait_and_cancelled_ones_leave_no_trace() -> None:
    gated = Gated()
    layer = LimitedModel(gated, floor=2, cap=2)
    calls = [asyncio.create_task(layer.chat(ask(str(n)))) for n in range(6)]
    await asyncio.sleep(0.01)
    assert (gated.inside, layer.permits.held) == (2, 2)
    calls[0].cancel()
    calls[3].cancel()
    await asyncio.sleep(0.01)
    assert gated.inside == 2
    gated.gate.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(outcome, ChatReply) for outcome in outcomes] == [False, True, True, False, True, True]
    assert (gated.most_inside, layer.permits.held) == (2, 0)


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
