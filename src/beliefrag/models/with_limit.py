"""Limits how many calls run at a time, and finds the limit that the server takes."""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum

from beliefrag.errors import SettingsError, TransportError
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest, ModelLayer

__all__ = ["CallOutcome", "LimitedModel", "Permits"]


class CallOutcome(Enum):
    """What the end of a call says about the server's load."""

    ANSWERED = "the server answered"
    BUSY = "the server answered 429"
    FAILED = "the server failed, timed out or broke the connection"
    UNKNOWN = "the call was cancelled, or refused for its content: this says nothing about the load"


class Permits:
    """As many permits at a time as the server has shown that it takes, given out in the order of the requests.

    Additive increase, multiplicative decrease: while all permits are in use, each window of good replies adds one; a
    429 halves them; a failure stops the growth for one window. Only the first 429 of a window halves, because the other
    calls of the window were sent before it was known. Until the first 429 or failure, a window of good replies doubles
    the permits, as TCP's slow start does: 32 at a time are reached in 5 windows instead of 31. No clock is used: the
    same outcomes give the same limit.

    Args:
        floor: Permits at the start, and the least number at any time.
        cap: The largest number at any time.
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
        """Waits for a permit and returns the window that it belongs to."""
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
        """Gives a permit back, with the outcome of its call."""
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
            # An idle server says nothing about a busy one, so only a full window adds permits.
            step = 1.0 if self._never_refused else 1 / self._size
            self._size = min(float(self._cap), self._size + step)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self._held < self.limit:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self._held += 1
                turn.set_result(self._window)


class LimitedModel(ModelLayer):
    """Keeps the number of calls at a time within what the server takes. All episodes of a run share one.

    Args:
        model: The model to call.
        cap: The largest number of calls at a time.
        floor: The number of calls at a time to start with, and the least one.
    """

    def __init__(self, model: ChatModel, *, cap: int = 16, floor: int = 1) -> None:
        super().__init__(model)
        self.permits = Permits(floor, cap)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Calls the model when it is this request's turn."""
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
