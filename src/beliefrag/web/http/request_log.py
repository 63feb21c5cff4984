"""One log line and one count per request, and the last resort when a handler breaks."""

from __future__ import annotations

import logging
import re
import time
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beliefrag.web.http.metrics import Metrics
from beliefrag.web.http.note import Note
from beliefrag.web.http.problems import Problem
from beliefrag.web.http.running import ClientGone

__all__ = ["Journal"]

_GONE = 499
"""What is logged when the client left; nothing was sent."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger(__name__)


class Journal:
    """The outermost middleware.

    The log holds method, route, status, time and cost. It holds no question, no passage, no answer, no header and no
    address with values in it: those belong to the client.

    Args:
        app: Everything else.
        metrics: Where requests are counted.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on and writes down what became of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope).get("x-request-id", "")
        note = Note(asked if _ID.fullmatch(asked) else uuid.uuid4().hex)
        note.attach(scope)
        began = time.perf_counter()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = note.request_id
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientGone:
            note.gone = True
        except Exception as error:
            # The message of an unforeseen error can quote anything; the traceback is for --debug.
            _log.error("A request broke.", extra={"fields": _broken(note, error)})
            _log.debug("It broke here.", exc_info=True)
            if not status:
                problem = Problem(500, "internal", f"Internal error, {type(error).__name__}.")
                await problem.response(scope["path"], note.request_id)(scope, receive, sending)
        finally:
            self._write(scope, note, _GONE if note.gone or not status else status, time.perf_counter() - began)

    def _write(self, scope: Scope, note: Note, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        # The pattern of the route, not the path: a path can hold anything.
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        if note.refused is not None:
            self._metrics.refused.labels(note.refused).inc()
        fields: dict[str, Any] = {
            "request_id": note.request_id,
            "method": method,
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 1),
        }
        if note.refused is not None:
            fields["refused"] = note.refused
        if note.outcome is not None:
            fields |= {
                "outcome": note.outcome,
                "answerability": note.answerability,
                "calls": note.calls,
                "tokens_in": note.tokens_in,
                "tokens_out": note.tokens_out,
            }
        if note.cause is not None:
            fields["cause"] = note.cause
        _log.log(logging.WARNING if status >= 500 else logging.INFO, "request", extra={"fields": fields})


def _broken(note: Note, error: Exception) -> dict[str, Any]:
    return {"request_id": note.request_id, "error": type(error).__name__}
