"""Adds up what an episode costs, in total and by purpose."""

from __future__ import annotations

from dataclasses import replace

from beliefrag.models.failures import EmptyReplyError
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest
from beliefrag.types import Usage

__all__ = ["Meter"]


class Meter:
    """Counts the calls of one episode. The outermost layer, so that a cached reply costs what it cost when made.

    The judge is evaluation and never in a method's cost: ask it without a meter, or with one of its own.

    Args:
        model: The shared stack that all episodes ask.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._searches = 0
        self._by_purpose: dict[str, Usage] = {}

    def fresh(self) -> Meter:
        """A meter on the same model that has counted nothing yet."""
        return Meter(self._model)

    @property
    def identity(self) -> str:
        """That of the model inside."""
        return self._model.identity

    @property
    def usage(self) -> Usage:
        """What has been used so far. A value: it does not change with later calls."""
        total = Usage(searches=self._searches)
        for usage in self._by_purpose.values():
            total = _sum(total, usage)
        return replace(total, by_purpose=dict(self._by_purpose))

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Asks, and counts what came back. A failed call counts only for what it is known to have wasted."""
        try:
            reply = await self._model.chat(request)
        except EmptyReplyError as error:
            self._add(request, Usage(retries=error.retries, wasted_tokens=error.wasted_tokens))
            raise
        spent = Usage(
            calls=1,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            seconds=reply.seconds,
            cached_calls=int(reply.cached),
            retries=reply.retries,
            wasted_tokens=reply.wasted_tokens,
        )
        self._add(request, spent)
        return reply

    def searched(self) -> None:
        """Counts one search. Retrieval is counted apart from tokens (SPEC 7)."""
        self._searches += 1

    async def aclose(self) -> None:
        """Does nothing: the model is shared, and other episodes may still ask it."""

    def _add(self, request: ChatRequest, spent: Usage) -> None:
        self._by_purpose[request.purpose] = _sum(self._by_purpose.get(request.purpose, Usage()), spent)


def _sum(one: Usage, other: Usage) -> Usage:
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
