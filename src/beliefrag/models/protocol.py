"""What every model provider and every layer around one looks like: one request in, one reply out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

__all__ = ["ChatModel", "ChatReply", "ChatRequest", "Message", "TokenProbability"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Everything that shapes a reply, apart from the model itself. Always at temperature 0, never streamed."""

    purpose: str
    """What the call is for (verifier, query_writer, ...): for metering and scripted replies; never sent."""
    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    """JSON schema that the reply must satisfy, where the provider can enforce one."""
    max_tokens: int | None = None
    top_logprobs: int = 0
    """How many alternatives to report for each reply token; 0 asks for no probabilities."""
    sample: int = 0
    """Tells apart repeats of the same request, so that each has its own place in the cache."""
    stop: tuple[str, ...] = ()
    """Texts that end the reply where the first of them begins; at most four, as servers take no more. The stop text is
    not in the reply. Only for texts that a model has no reason to write in its thinking: there they end it too."""


@dataclass(frozen=True, slots=True)
class TokenProbability:
    """A reply token with its natural-log probability and the alternatives weighed against it."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What came back, and what it cost when it was made."""

    text: str
    tokens_in: int
    tokens_out: int
    seconds: float
    counted_by: str = "server"
    """Who counted the tokens: "server", or the name of the local tokenizer that stood in."""
    tokens: tuple[TokenProbability, ...] | None = None
    truncated: bool = False
    """The model ran into its token limit: the text may stop in the middle."""
    cached: bool = False
    retries: int = 0
    wasted_tokens: int = 0


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
        """Names the model so that two different ones never share a cache entry or an artifact."""
        ...

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answers one request."""
        ...

    async def aclose(self) -> None:
        """Lets go of connections and memory. Calling it twice is harmless."""
        ...
