"""The errors of model calls, each in one line with what to do next; a scripted 429 and a real one are the same."""

from __future__ import annotations

import math
import re
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime

from beliefrag.errors import ReplyError, TransportError

_RETRYABLE = frozenset({408, 409, 425, 429})
_NEVER = frozenset({501, 505})
_TOO_LONG = re.compile(
    r"context.{0,30}(length|window|size)|maximum context|too many (input |prompt )?tokens|(prompt|input) is too long",
    re.IGNORECASE | re.DOTALL,
)
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
_MAX_DETAIL = 240
_BY_STATUS = {
    401: ("rejected the API key", "Set OPENAI_API_KEY to a key that this server knows."),
    402: ("asks for payment", "Check the account's plan and billing."),
    403: ("does not allow this", "Check that the key may use this model."),
    404: ("does not know this model or address", "Check the model's name, and the base URL (it often ends in /v1)."),
    405: ("takes no chat requests at this address", "Check the base URL (it often ends in /v1)."),
    408: ("gave up waiting", "Try again, or raise the timeout."),
    429: ("receives too many requests", "Wait, or lower the concurrency."),
}


class EmptyReplyError(ReplyError):
    """A reply without any text: the one bad reply for which the call is repeated, once."""

    def __init__(self, message: str, *, remedy: str = "", wasted_tokens: int = 0, retries: int = 0) -> None:
        super().__init__(message, remedy=remedy)
        self.wasted_tokens = wasted_tokens
        self.retries = retries


def status_error(status: int, *, server: str, detail: str = "", retry_after: float | None = None) -> TransportError:
    """Return the error for an HTTP status, 400 or above. `detail` is made safe with `one_line` before."""
    retryable = status in _RETRYABLE or (status >= 500 and status not in _NEVER)
    what, remedy = _explain(status, detail)
    if status == 429 and _QUOTA.search(detail):
        retryable = False
        what, remedy = "says that the quota is used up", "Check the account's plan and billing."
    elif status == 429 and retry_after is not None:
        what += f" and asks to wait {retry_after:g} s"
    return TransportError(
        f"{server} {what} (HTTP {status}){': ' if detail else ''}{detail}",
        remedy=remedy,
        status=status,
        retryable=retryable,
        retry_after=retry_after,
    )


def _explain(status: int, detail: str) -> tuple[str, str]:
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(detail)):
        return "finds the request too long", "Give fewer or shorter passages, or use a model with a longer context."
    if status >= 500:
        return "failed", "Look at the server's log, or try again later."
    other = ("rejected the request", "Look at what the server said, and at the model's settings.")
    return _BY_STATUS.get(status, other)


def connection_error(error: BaseException, *, server: str, reached: bool) -> TransportError:
    """Return the error for a connection that could not be opened or broke.

    A server that was never `reached` probably has a wrong address: its error is not retried.
    """
    causes = tuple(_causes(error))
    said = one_line(str(causes[-1]))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        remedy = "Check the base URL (http or https) and the certificates (SSL_CERT_FILE)."
        return TransportError(f"The secure connection to {server} failed: {said}", remedy=remedy)
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        remedy = "Check that the server runs at this base URL."
        return TransportError(f"{server} refused the connection.", remedy=remedy, retryable=reached)
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        remedy = "Check the base URL."
        return TransportError(f"{server} cannot be found: its name is unknown.", remedy=remedy, retryable=reached)
    remedy = "Look at the server's log, or try again later."
    return TransportError(f"{server} closed the connection early.", remedy=remedy, retryable=True)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _causes(each)
        error = error.__cause__ or error.__context__


def one_line(text: str, *, secrets: Iterable[str] = ()) -> str:
    """Make a server's text safe for an error message: one short line, no control characters, no secrets."""
    for secret in secrets:
        text = text.replace(secret, "***")
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= _MAX_DETAIL else text[: _MAX_DETAIL - 1] + "…"


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks us to wait: Retry-After in seconds or as a date, or retry-after-ms."""
    milliseconds, asked = headers.get("retry-after-ms"), headers.get("retry-after", "")
    try:
        wait = float(milliseconds) / 1000 if milliseconds else float(asked)
    except ValueError:
        try:
            wait = parsedate_to_datetime(asked).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, wait) if math.isfinite(wait) else None
