"""The layers around a model call, from the outside to the inside, and why they are in this order.

- Each episode's `Meter` is outermost: a reply from the cache costs what it cost when it was made.
- The cache (`CachedModel`) comes next: a stored reply waits for no permit. It stores the reply that the retries
  accepted with what they wasted, and never a failure.
- The retries (`RetryingModel`) are outside the limit: a call that waits before it is repeated holds no permit.
- The limit (`LimitedModel`) is next to the provider: it sees every 429 and 5xx.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from dataclasses import dataclass, fields, replace
from pathlib import Path

import stamina

from beliefrag.errors import SettingsError, TransportError
from beliefrag.models.cache import CachedModel
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest, ModelLayer
from beliefrag.types import Usage

# stamina reports each retry on its own logger. Without any handler Python would print that to a person's terminal.
logging.getLogger("stamina").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is repeated; the wait doubles from `wait_initial` to at most `wait_max`, plus some jitter."""

    attempts: int = 6
    seconds: float = 300.0
    """How long after the first failure to repeat the call; a server that asks for a longer wait fails it."""
    wait_initial: float = 0.5
    wait_max: float = 30.0
    wait_jitter: float = 1.0


def compose(
    provider: ChatModel,
    *,
    cache: Path | None,
    replay: bool = False,
    retry: RetryPolicy | None = None,
    limit: int = 16,
) -> ChatModel:
    """Return the model that all episodes of a run share; `replay` answers from the cache file alone."""
    model: ChatModel = RetryingModel(LimitedModel(provider, cap=limit), retry)
    if cache is not None:
        return CachedModel(model, cache, replay=replay)
    if replay:
        raise SettingsError("A replay needs a cache.", remedy="Name the cache file of the run to replay.")
    return model


class Meter(ModelLayer):
    """Counts the calls of one episode, in total and by purpose. The judge has a meter of its own or none."""

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
    names = [field.name for field in fields(Usage) if field.name != "by_purpose"]
    return Usage(**{name: getattr(one, name) + getattr(other, name) for name in names})


class RetryingModel(ModelLayer):
    """Repeats a call after a retryable `TransportError`, and once after an empty reply.

    The accepted reply has its own cost; its `retries` and `wasted_tokens` count the calls before it.
    """

    def __init__(self, model: ChatModel, policy: RetryPolicy | None = None) -> None:
        super().__init__(model)
        self._policy = policy or RetryPolicy()

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Call until there is a reply, or until another call makes no sense."""
        policy, retries, wasted, empty = self._policy, 0, 0, 0
        give_up = 0.0

        def next_wait(error: Exception) -> bool | float:
            """Return whether to call again, or after how many seconds."""
            nonlocal wasted, empty, give_up
            if isinstance(error, EmptyReplyError):
                wasted += error.wasted_tokens
                empty += 1
                return 0.0 if empty == 1 else False
            if not (isinstance(error, TransportError) and error.retryable):
                return False
            give_up = give_up or time.monotonic() + policy.seconds
            left = give_up - time.monotonic()
            if error.retry_after is None:
                return left > 0
            # The server told all callers the same time: jitter keeps them from calling again together.
            wait = error.retry_after + random.uniform(0, policy.wait_jitter)  # noqa: S311
            return wait if wait <= left else False

        try:
            async for attempt in stamina.retry_context(
                on=next_wait,
                attempts=policy.attempts,
                timeout=None,  # `next_wait` keeps the time: stamina's clock would also run while waiting for a permit
                wait_initial=policy.wait_initial,
                wait_max=policy.wait_max,
                wait_jitter=policy.wait_jitter,
            ):
                retries = attempt.num - 1
                with attempt:
                    reply = await self._model.chat(request)
                    if not reply.text.strip():
                        raise EmptyReplyError(
                            "The model gave an empty message.",
                            remedy="Change the question, or use another model.",
                            wasted_tokens=reply.tokens_in + reply.tokens_out,
                        )
                    return replace(reply, retries=reply.retries + retries, wasted_tokens=reply.wasted_tokens + wasted)
        except EmptyReplyError as error:
            raise EmptyReplyError(error.message, remedy=error.remedy, wasted_tokens=wasted, retries=retries) from None
        except TransportError as error:
            if retries:
                error.message = f"{error.message.rstrip('.')} (called {retries + 1} times)."
            raise
        raise AssertionError("stamina ends with a reply or an error")


class LimitedModel(ModelLayer):
    """Keeps the number of calls at a time within what the server takes. All episodes of a run share one.

    Additive increase, multiplicative decrease: while all permits are in use, each window of good replies adds one (and
    doubles them until the first failure, as TCP's slow start does); the first 429 of a window halves them; a failure
    stops the growth for one window. No clock is used: the same outcomes give the same limit.
    """

    def __init__(self, model: ChatModel, *, cap: int = 16) -> None:
        super().__init__(model)
        self._cap = cap
        self._size = 1.0
        self._held = 0
        self._window = 0
        self._good_before_growth = 0
        self._never_refused = True
        self._waiting: deque[asyncio.Future[int]] = deque()

    @property
    def limit(self) -> int:
        """How many calls may run at present."""
        return int(self._size)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Call the model when it is this request's turn."""
        window = await self.acquire()
        try:
            reply = await self._model.chat(request)
        except BaseException as error:
            self.release(window, error)
            raise
        self.release(window)
        return reply

    async def acquire(self) -> int:
        """Wait for a permit, in the order of the requests, and return the window that it belongs to."""
        if not self._waiting and self._held < self.limit:
            self._held += 1
            return self._window
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError as error:
            if not turn.cancelled():
                # Cancelled after the permit was given but before it arrived: it would be lost.
                self.release(turn.result(), error)
            raise

    def release(self, window: int, error: BaseException | None = None) -> None:
        """Return a permit, with the error of its call. Only a `TransportError` means something for the load."""
        is_full = self._held >= self.limit
        self._held -= 1
        is_busy = isinstance(error, TransportError) and error.status == 429
        is_failed = isinstance(error, TransportError) and error.retryable and not is_busy
        if is_busy or is_failed:
            self._never_refused = False
        if is_busy and window == self._window:
            self._size = max(1.0, self._size / 2)
            self._window += 1
        elif is_failed:
            self._good_before_growth = self.limit
        elif error is None and self._good_before_growth:
            self._good_before_growth -= 1
        elif error is None and is_full:
            # An idle server shows nothing about a busy one, so only a full window adds permits.
            step = 1.0 if self._never_refused else 1 / self._size
            self._size = min(float(self._cap), self._size + step)
        while self._waiting and self._held < self.limit:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self._held += 1
                turn.set_result(self._window)
