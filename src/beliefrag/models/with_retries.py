"""Repeats a call that failed for a passing reason, and counts what the failures cost."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass, replace

import stamina

from beliefrag.errors import SettingsError, TransportError
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest, ModelLayer

__all__ = ["RetryPolicy", "RetryingModel"]

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
            raise SettingsError(
                f"attempts is {self.attempts}.", remedy="Give 1 to call once, or more to repeat failed calls."
            )
        if min(self.seconds, self.wait_initial, self.wait_max, self.wait_jitter) < 0:
            raise SettingsError("A time to wait is negative.", remedy="Give seconds, 0 or more.")


class RetryingModel(ModelLayer):
    """Repeats a call after a busy server, a broken connection or one empty reply.

    A retryable `TransportError` is followed by another call, after the wait that the server asked for if it did. An
    empty reply is followed by one more call. Everything else passes through at once, also a cancellation. The accepted
    reply has its own cost; its `retries` and `wasted_tokens` count the calls before it.

    Args:
        model: The model to call.
        policy: How often and how long to repeat.
    """

    def __init__(self, model: ChatModel, policy: RetryPolicy | None = None) -> None:
        super().__init__(model)
        self._policy = policy or RetryPolicy()

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Calls until there is a reply, or until another call makes no sense."""
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
        self._empty = 0
        self._first_failure: float | None = None

    def next_wait(self, error: Exception) -> bool | float:
        """Says whether to call again, or after how many seconds."""
        if isinstance(error, EmptyReplyError):
            self.wasted_tokens += error.wasted_tokens
            self._empty += 1
            return 0.0 if self._empty == 1 else False
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
        """Gives the reply with the counts of the calls before it. An empty one is a failure however it is reported."""
        if not reply.text.strip():
            raise EmptyReplyError(
                "The model gave an empty message.",
                remedy="Change the question, or use another model.",
                wasted_tokens=reply.tokens_in + reply.tokens_out,
            )
        return replace(
            reply, retries=reply.retries + self.retries, wasted_tokens=reply.wasted_tokens + self.wasted_tokens
        )
