"""Asks again when that may help, and says what it cost."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass, replace

import stamina

from beliefrag.errors import SettingsError, TransportError
from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest

__all__ = ["Retry", "RetryPolicy"]

# stamina reports each retry on its own logger. Without any handler Python would print that to a person's terminal.
logging.getLogger("stamina").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to keep asking. Waits double from `wait_initial`, with up to `wait_jitter` more, up to `wait_max`."""

    attempts: int = 6
    """How often to ask in all; 1 never asks again."""
    seconds: float = 300.0
    """How long after the first failure to ask again. A server that asks for a longer wait is not waited for."""
    wait_initial: float = 0.5
    wait_max: float = 30.0
    wait_jitter: float = 1.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise SettingsError(f"attempts is {self.attempts}.", remedy="Give 1 to ask once, or more to ask again.")
        if min(self.seconds, self.wait_initial, self.wait_max, self.wait_jitter) < 0:
            raise SettingsError("A time to wait is negative.", remedy="Give seconds, 0 or more.")


class Retry:
    """Carries a call over a busy server, a broken connection or one empty generation.

    Asks again after a `TransportError` that is retryable, after the wait that the server asked for if it did, and once
    after an empty generation. Everything else passes through at once, cancellation too. The reply that is accepted
    costs what it cost; what went before is in its `retries` and `wasted_tokens`.

    Args:
        model: Whom to ask.
        policy: How long to keep asking.
    """

    def __init__(self, model: ChatModel, policy: RetryPolicy | None = None) -> None:
        self._model = model
        self._policy = policy or RetryPolicy()

    @property
    def identity(self) -> str:
        """That of the model inside."""
        return self._model.identity

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Asks until there is a reply, or asking again makes no sense."""
        call = _Call(self._policy)
        try:
            async for attempt in stamina.retry_context(
                on=call.again,
                attempts=self._policy.attempts,
                timeout=None,  # `again` keeps the time: stamina's clock would also run while waiting for a first permit
                wait_initial=self._policy.wait_initial,
                wait_max=self._policy.wait_max,
                wait_jitter=self._policy.wait_jitter,
            ):
                call.retries = attempt.num - 1
                with attempt:
                    return call.settled(await self._model.chat(request))
        except EmptyReplyError as error:
            raise EmptyReplyError(
                error.message, remedy=error.remedy, wasted_tokens=call.wasted_tokens, retries=call.retries
            ) from None
        except TransportError as error:
            if call.retries:
                error.message += f" (asked {call.retries + 1} times)"
            raise
        raise AssertionError("stamina ends with a reply or an error")

    async def aclose(self) -> None:
        """Closes the model inside."""
        await self._model.aclose()


class _Call:
    """What has happened to one request so far."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.retries = 0
        self.wasted_tokens = 0
        self._policy = policy
        self._empty = 0
        self._first_failure: float | None = None

    def again(self, error: Exception) -> bool | float:
        """Whether to ask again, or after how many seconds."""
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
        # Everybody was told the same time: jitter keeps them from coming back together.
        wait = error.retry_after + random.uniform(0, self._policy.wait_jitter)  # noqa: S311
        return wait if wait <= left else False

    def settled(self, reply: ChatReply) -> ChatReply:
        """The reply with what went before it; an empty one is a failure whichever way a provider reports it."""
        if not reply.text.strip():
            raise EmptyReplyError(
                "The model gave an empty message.",
                remedy="Ask otherwise, or use another model.",
                wasted_tokens=reply.tokens_in + reply.tokens_out,
            )
        return replace(
            reply, retries=reply.retries + self.retries, wasted_tokens=reply.wasted_tokens + self.wasted_tokens
        )
