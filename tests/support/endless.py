"""A model that never replies: shows whether somebody who leaves stops the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from beliefrag.models.protocol import ChatReply, ChatRequest


class Endless:
    """Never replies, and counts the calls that began and those that were cancelled."""

    identity = "endless:1"

    def __init__(self) -> None:
        self.asked = 0
        self.cancelled = 0

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.asked += 1
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError("nobody waited that long")

    async def aclose(self) -> None:
        pass


async def asked(model: Endless, times: int) -> None:
    """Wait until that many calls have begun."""
    await _until(lambda: model.asked == times)


async def all_cancelled(model: Endless, times: int) -> None:
    """Wait until that many calls have begun and have been cancelled."""
    await _until(lambda: model.asked == model.cancelled == times)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(90):
        while not true():  # noqa: ASYNC110  # the model may live on the event loop of another thread
            await asyncio.sleep(0.01)
