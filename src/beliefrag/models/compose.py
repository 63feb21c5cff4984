"""The layers around a model call, from the outside to the inside, and why they are in this order.

- Each episode puts its own `Meter` around the shared model, as the outermost layer, so that a reply from the cache
  costs what it cost when it was made.
- The cache (`CachedModel`) comes next, so that a stored reply waits for nothing: no permit, no retry. It stores the
  reply that the retries accepted, together with what they wasted, and never a failure.
- The retries (`RetryingModel`) are outside the limit: a call that waits before it is repeated holds no permit in the
  meantime, and then waits in the same queue as all others.
- The limit (`LimitedModel`) is next to the provider, so that it sees every 429 and 5xx, not only those after the last
  retry.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import stamina

from beliefrag.errors import SettingsError, TransportError
from beliefrag.models.cache import CachedModel
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest, ModelLayer
from beliefrag.types import Usage

__all__ = ["CallOutcome", "LimitedModel", "Meter", "Permits", "RetryPolicy", "RetryingModel", "compose"]

# stamina reports each retry on its own logger. Without any handler Python would print that to a person's terminal.
logging.getLogger("stamina").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a call is repeated.

    The wait doubles each time from `wait_initial` to at most `wait_max`, with up to `wait_jitter` seconds more.
    """

    attempts: int = 6
    """How many calls to make in all; 1 never repeats."""
    seconds: float = 300.0
    """How long after the first failure to repeat the call. If a server asks for a longer wait, the call fails."""
    wait_initial: float = 0.5
    wait_max: float = 30.0
    wait_jitter: float = 1.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise SettingsError(f"attempts is {self.attempts}.", remedy="Give 1 to call once, or more to repeat.")
        if min(self.seconds, self.wait_initial, self.wait_max, self.wait_jitter) < 0:
            raise SettingsError("A time to wait is negative.", remedy="Give seconds, 0 or more.")


def compose(
    provider: ChatModel,
    *,
    cache: Path | None,
    replay: bool = False,
    retry: RetryPolicy | None = None,
    limit: int = 16,
) -> ChatModel:
    """Return the model that all episodes of a run share: the cache around the retries around the limit.

    Args:
        provider: The model itself.
        cache: The file of stored replies; None stores none.
        replay: Answer from the cache alone.
        retry: How often and how long to repeat failed calls.
        limit: The largest number of calls at a time. The number in use follows the server.

    Raises:
        SettingsError: The cache file cannot be used, or a replay has none.
    """
    model: ChatModel = RetryingModel(LimitedModel(provider, cap=limit), retry)
    if cache is not None:
        return CachedModel(model, cache, replay=replay)
    if replay:
        raise SettingsError("A replay needs a cache.", remedy="Name the cache file of the run to replay.")
    return model


class Meter(ModelLayer):
    """Counts the calls of one episode, in total and by purpose.

    The judge is evaluation and never part of a method's cost: call it without a meter, or with a meter of its own.
    """

    def __init__(self, model: ChatModel) -> None:
        super().__init__(model)
        self._searches = 0
        self._by_purpose: dict[str, Usage] = {}

    def new_meter(self) -> Meter:
        """Return a meter on the same model that has counted nothing yet."""
        return Meter(self._model)

    @property
    def usage(self) -> Usage:
        """What has been used so far. The value does not change with later calls."""
        total = Usage(searches=self._searches)
        for usage in self._by_purpose.values():
            total = _add(total, usage)
        return replace(total, by_purpose=dict(self._by_purpose))

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Pass the request on and count the reply. A failed call counts only for what it is known to have wasted."""
        try:
            reply = await self._model.chat(request)
        except EmptyReplyError as error:
            self._count(request, Usage(retries=error.retries, wasted_tokens=error.wasted_tokens))
            raise
        used = Usage(
            calls=1,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            seconds=reply.seconds,
            cached_calls=int(reply.cached),
            retries=reply.retries,
            wasted_tokens=reply.wasted_tokens,
        )
        self._count(request, used)
        return reply

    def count_search(self) -> None:
        """Count one search. Searches are counted apart from tokens."""
        self._searches += 1

    async def aclose(self) -> None:
        """Do nothing: the model is shared, and other episodes may still use it."""

    def _count(self, request: ChatRequest, used: Usage) -> None:
        self._by_purpose[request.purpose] = _add(self._by_purpose.get(request.purpose, Usage()), used)


def _add(one: Usage, other: Usage) -> Usage:
    return Usage(
        calls=one.calls + other.calls,
        tokens_in=one.tokens_in + other.tokens_in,
        tokens_out=one.tokens_out + other.tokens_out,
        seconds=one.seconds + other.seconds,
        cached_calls=one.cached_calls + other.cached_calls,
        retries=one.retries + other.retries,
        wasted_tokens=one.wasted_tokens + other.wasted_tokens,
        searches=one.searches + other.searches,
    )


class RetryingModel(ModelLayer):
    """Repeats a call after a busy server, a broken connection or one empty reply.

    A retryable `TransportError` is followed by another call, after the wait that the server asked for if it did. An
    empty reply is followed by one more call. Everything else passes through at once, also a cancellation. The accepted
    reply has its own cost; its `retries` and `wasted_tokens` count the calls before it.
    """

    def __init__(self, model: ChatModel, policy: RetryPolicy | None = None) -> None:
        super().__init__(model)
        self._policy = policy or RetryPolicy()

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Call until there is a reply, or until another call makes no sense."""
        call = _CallHistory(self._policy)
        try:
            async for attempt in stamina.retry_context(
                on=call.next_wait,
                attempts=self._policy.attempts,
                timeout=None,  # `next_wait` keeps the time: stamina's clock would also run while waiting for a permit
                wait_initial=self._policy.wait_initial,
                wait_max=self._policy.wait_max,
                wait_jitter=self._policy.wait_jitter,
            ):
                call.retries = attempt.num - 1
                with attempt:
                    return call.accept(await self._model.chat(request))
        except EmptyReplyError as error:
            raise EmptyReplyError(
                error.message, remedy=error.remedy, wasted_tokens=call.wasted_tokens, retries=call.retries
            ) from None
        except TransportError as error:
            if call.retries:
                error.message += f" (called {call.retries + 1} times)"
            raise
        raise AssertionError("stamina ends with a reply or an error")


class _CallHistory:
    """The failures of one request so far."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.retries = 0
        self.wasted_tokens = 0
        self._policy = policy
        self._has_been_empty = False
        self._first_failure: float | None = None

    def next_wait(self, error: Exception) -> bool | float:
        """Return whether to call again, or after how many seconds."""
        if isinstance(error, EmptyReplyError):
            self.wasted_tokens += error.wasted_tokens
            is_first, self._has_been_empty = not self._has_been_empty, True
            return 0.0 if is_first else False
        if not (isinstance(error, TransportError) and error.retryable):
            return False
        now = time.monotonic()
        if self._first_failure is None:
            self._first_failure = now
        left = self._policy.seconds - (now - self._first_failure)
        if error.retry_after is None:
            return left > 0
        # The server told all callers the same time: jitter keeps them from calling again together.
        wait = error.retry_after + random.uniform(0, self._policy.wait_jitter)  # noqa: S311
        return wait if wait <= left else False

    def accept(self, reply: ChatReply) -> ChatReply:
        """Return the reply with the counts of the calls before it. An empty one is an error, whoever made it."""
        if not reply.text.strip():
            raise EmptyReplyError(
                "The model gave an empty message.",
                remedy="Change the question, or use another model.",
                wasted_tokens=reply.tokens_in + reply.tokens_out,
            )
        return replace(
            reply, retries=reply.retries + self.retries, wasted_tokens=reply.wasted_tokens + self.wasted_tokens
        )


class CallOutcome(Enum):
    """What the end of a call means for the server's load."""

    ANSWERED = "the server answered"
    BUSY = "the server answered 429"
    FAILED = "the server failed, timed out or broke the connection"
    UNKNOWN = "the call was cancelled, or refused for its content: no information about the load"


class Permits:
    """As many permits at a time as the server has shown that it takes, in the order of the requests.

    Additive increase, multiplicative decrease: while all permits are in use, each window of good replies adds one; a
    429 halves them; a failure stops the growth for one window. Only the first 429 of a window halves, because the other
    calls of the window were sent before it was known. Until the first 429 or failure, a window of good replies doubles
    the permits, as TCP's slow start does. No clock is used: the same outcomes give the same limit.
    """

    def __init__(self, floor: int = 1, cap: int = 16) -> None:
        if not 1 <= floor <= cap:
            raise SettingsError(
                f"The calls at a time run from {floor} to {cap}.",
                remedy="Give at least 1, and a cap not below the floor.",
            )
        self._floor = floor
        self._cap = cap
        self._size = float(floor)
        self._held = 0
        self._window = 0
        self._good_before_growth = 0
        self._never_refused = True
        self._waiting: deque[asyncio.Future[int]] = deque()

    @property
    def limit(self) -> int:
        """How many may be held at present."""
        return int(self._size)

    @property
    def held(self) -> int:
        """How many are held. Above the limit only while it has just shrunk."""
        return self._held

    async def acquire(self) -> int:
        """Wait for a permit and return the window that it belongs to."""
        if not self._waiting and self._held < self.limit:
            self._held += 1
            return self._window
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # Cancelled after the permit was given but before it arrived: nobody else would give it back.
                self.release(turn.result(), CallOutcome.UNKNOWN)
            raise

    def release(self, window: int, outcome: CallOutcome) -> None:
        """Return a permit, with the outcome of its call."""
        used_up = self._held >= self.limit
        self._held -= 1
        if outcome in (CallOutcome.BUSY, CallOutcome.FAILED):
            self._never_refused = False
        if outcome is CallOutcome.BUSY and window == self._window:
            self._size = max(float(self._floor), self._size / 2)
            self._window += 1
        elif outcome is CallOutcome.FAILED:
            self._good_before_growth = self.limit
        elif outcome is CallOutcome.ANSWERED and self._good_before_growth:
            self._good_before_growth -= 1
        elif outcome is CallOutcome.ANSWERED and used_up:
            # An idle server shows nothing about a busy one, so only a full window adds permits.
            step = 1.0 if self._never_refused else 1 / self._size
            self._size = min(float(self._cap), self._size + step)
        while self._waiting and self._held < self.limit:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self._held += 1
                turn.set_result(self._window)


class LimitedModel(ModelLayer):
    """Keeps the number of calls at a time within what the server takes. All episodes of a run share one."""

    def __init__(self, model: ChatModel, *, cap: int = 16, floor: int = 1) -> None:
        super().__init__(model)
        self.permits = Permits(floor, cap)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Call the model when it is this request's turn."""
        window = await self.permits.acquire()
        outcome = CallOutcome.UNKNOWN
        try:
            reply = await self._model.chat(request)
            outcome = CallOutcome.ANSWERED
        except TransportError as error:
            if error.status == 429:
                outcome = CallOutcome.BUSY
            elif error.retryable:
                outcome = CallOutcome.FAILED
            raise
        finally:
            self.permits.release(window, outcome)
        return reply
