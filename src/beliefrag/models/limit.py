"""Finds out how many calls a server takes at a time, instead of asking the user."""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum

from beliefrag.errors import SettingsError, TransportError
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest

__all__ = ["Limit", "Permits", "Sign"]


class Sign(Enum):
    """What the end of a call says about the server's load."""

    FINE = "it answered"
    BUSY = "it answered 429"
    TROUBLED = "it failed, timed out or broke off"
    NONE = "nothing: cancelled, or refused for what was asked"


class Permits:
    """As many permits at a time as the server has shown it can take, given out in the order of asking.

    Additive increase, multiplicative decrease: while all permits are in use, each window of good replies adds one; a
    429 halves them; a failure holds growth for one window. Only the first 429 of a window halves, since the others
    were sent before anybody could know. Until the first 429 or failure a window of good replies doubles them, as TCP's
    slow start does: 32 at a time are reached in 5 windows instead of 31. There is no clock in it: the same signs give
    the same limit.

    Args:
        floor: Permits at the start, and never fewer.
        cap: Never more.
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
        """Waits for a permit and gives the window it belongs to."""
        if not self._waiting and self._held < self.limit:
            self._held += 1
            return self._window
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # Cancelled after the permit was handed over but before it arrived: nobody else would give it back.
                self.release(turn.result(), Sign.NONE)
            raise

    def release(self, window: int, sign: Sign) -> None:
        """Gives a permit back, with what became of the call it was for."""
        used_up = self._held >= self.limit
        self._held -= 1
        if sign in (Sign.BUSY, Sign.TROUBLED):
            self._never_refused = False
        if sign is Sign.BUSY and window == self._window:
            self._size = max(float(self._floor), self._size / 2)
            self._window += 1
        elif sign is Sign.TROUBLED:
            self._good_before_growth = self.limit
        elif sign is Sign.FINE and self._good_before_growth:
            self._good_before_growth -= 1
        elif sign is Sign.FINE and used_up:
            # An idle server says nothing about a busy one, so only a full window grows.
            step = 1.0 if self._never_refused else 1 / self._size
            self._size = min(float(self._cap), self._size + step)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self._held < self.limit:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self._held += 1
                turn.set_result(self._window)


class Limit:
    """Keeps the calls to one server within what it takes. One of these is shared by all episodes of a run.

    Args:
        model: Whom to ask.
        cap: The most calls at a time.
        floor: The calls at a time to start with, and never fewer.
    """

    def __init__(self, model: ChatModel, *, cap: int = 16, floor: int = 1) -> None:
        self._model = model
        self.permits = Permits(floor, cap)

    @property
    def identity(self) -> str:
        """That of the model inside."""
        return self._model.identity

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Asks when it is this request's turn."""
        window = await self.permits.acquire()
        sign = Sign.NONE
        try:
            reply = await self._model.chat(request)
            sign = Sign.FINE
        except TransportError as error:
            if error.status == 429:
                sign = Sign.BUSY
            elif error.retryable:
                sign = Sign.TROUBLED
            raise
        finally:
            self.permits.release(window, sign)
        return reply

    async def aclose(self) -> None:
        """Closes the model inside."""
        await self._model.aclose()
