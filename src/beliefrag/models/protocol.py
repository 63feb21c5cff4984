"""One request in, one reply out: what every model provider, and every layer around one, looks like."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Everything that shapes a reply, apart from the model itself, and who watches it come. Always at temperature 0."""

    purpose: str
    """What the call is for, used for metering and by scripted models; never sent."""
    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    """JSON schema that the reply must satisfy, where the provider can enforce one."""
    max_tokens: int | None = None
    top_logprobs: int = 0
    """How many alternatives to report for each reply token; 0 asks for no probabilities."""
    sample: int = 0
    """The number of a repeat so that each repeat of a request has its own place in the cache."""
    stop: tuple[str, ...] = ()
    """At most four texts that end the reply before them, and also end a model's thinking."""
    on_text: Callable[[str], object] | None = field(default=None, compare=False, repr=False)
    """Called on the event loop with the whole text so far whenever it has grown, where the model streams.

    It shapes nothing: the cache does not know of it, and a cached reply calls nothing. A call that is repeated begins
    with a shorter text again."""


@dataclass(frozen=True, slots=True)
class TokenProbability:
    """A token of a reply with its natural-log probability and the most likely alternatives."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


Thinking: TypeAlias = Literal["", "apart", "tags", "end tag"]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What came back, and what it cost when it was made."""

    text: str
    tokens_in: int
    tokens_out: int
    seconds: float
    counted_by: str = "server"
    """Who counted the tokens: "server", or the name of the local rule."""
    tokens: tuple[TokenProbability, ...] | None = None
    truncated: bool = False
    """Whether the model reached its token limit."""
    thinking: Thinking = ""
    """How the server marks what the model thought before it answered; empty if it did not think."""
    cached: bool = False
    retries: int = 0
    wasted_tokens: int = 0

    @property
    def least_token(self) -> float | None:
        """The probability of its least likely token; None where the model reports no token probabilities."""
        return min(math.exp(min(0.0, token.logprob)) for token in self.tokens) if self.tokens else None


@runtime_checkable
class ChatModel(Protocol):
    """A model, or a layer around one.

    Raises:
        TransportError: The server could not be reached or refused; `retryable` says whether to try again.
        ReplyError: The server answered with nothing usable.
        ModelError: The model itself cannot be used.
    """

    @property
    def identity(self) -> str:
        """A name such that two different models never share a cache entry or an artifact."""
        ...

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer one request."""
        ...

    async def aclose(self) -> None:
        """Close connections and free memory. Calling it twice is harmless."""
        ...


class ModelLayer:
    """What all layers around a model share: they have the identity of the model inside, and close it."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def identity(self) -> str:
        """The identity of the model inside."""
        return self._model.identity

    async def aclose(self) -> None:
        """Close the model inside."""
        await self._model.aclose()


def cut_at_stop(text: str, stop: Iterable[str]) -> str:
    """Return the text before its first stop text, which a server may leave in the reply."""
    return text[: min((at for each in stop if (at := text.find(each)) >= 0), default=len(text))]


def count_pieces(pieces: Sequence[str] | Sequence[bytes], length: int) -> int:
    """Count the pieces that spell a text of this length: servers also report the tokens of the stop text."""
    starts = accumulate((len(piece) for piece in pieces[:-1]), initial=0)
    return sum(start < length for start in starts) if pieces else 0
