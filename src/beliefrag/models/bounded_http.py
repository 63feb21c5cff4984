"""An HTTP client that reads a body up to a limit, so that no server can fill the memory."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import httpx2
import openai

from beliefrag.models.protocol import ChatRequest

__all__ = ["BODY_LIMIT", "BodyTooLongError", "BoundedClient", "largest_body"]

_MARGIN = 1024 * 1024
"""Bytes for everything around the text: usage, timings, the prompt's own tokens where a server sends them back."""
_PER_TOKEN = 256
"""A token is seldom more than twenty characters, and a character at most twelve bytes in JSON."""
_PER_PROBABILITY = 320
"""A token or an alternative to it with its probability, and its bytes as a list of numbers."""
_LONGEST_ERROR = 64 * 1024

BODY_LIMIT: ContextVar[int] = ContextVar("body_limit", default=_MARGIN)
"""How many bytes the body of the call at hand may have."""


def largest_body(request: ChatRequest, max_tokens: int) -> int:
    """Says how many bytes an honest reply to a request has at most."""
    probabilities = (request.top_logprobs + 1) * _PER_PROBABILITY if request.top_logprobs else 0
    return _MARGIN + max_tokens * (_PER_TOKEN + probabilities)


class BodyTooLongError(openai.OpenAIError):
    """The body of a reply is longer than any reply to the request can be."""


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """Reads at most `BODY_LIMIT` bytes of a body; of an error's body, at most the beginning."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, event_hooks={"response": [_drop_body_of_redirect]})

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        """Sends a request and reads the whole reply.

        Raises:
            BodyTooLongError: The body is longer than the limit.
        """
        response = await super().send(request, **{**how, "stream": True})
        limit = BODY_LIMIT.get() if response.is_success else _LONGEST_ERROR
        body = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > limit:
                    if response.is_success:
                        raise BodyTooLongError(f"the reply is longer than {limit:,} bytes")
                    break
        finally:
            await response.aclose()
        # The body is decoded already, and its length is the one that it has now.
        described = ("content-encoding", "content-length", "transfer-encoding")
        headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in described]
        return httpx2.Response(response.status_code, headers=headers, content=bytes(body[:limit]), request=request)


async def _drop_body_of_redirect(response: httpx2.Response) -> None:
    # The client would read it to its end before it follows the redirect.
    if response.has_redirect_location and isinstance(response.stream, httpx2.AsyncByteStream):
        await response.stream.aclose()
        response.stream = httpx2.ByteStream(b"")
