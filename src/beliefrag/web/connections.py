"""Limits on connections, before a request is read: how many, how long without a request, how long without reading.

Uvicorn limits the size of a header, but neither the time for it nor the number of connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import time
from collections import Counter
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from beliefrag.web.limits import ServerLimits

__all__ = ["ConnectionGuard"]

_log = logging.getLogger(__name__)
_REPORT_SECONDS = 60.0
_MAX_HEADER_BYTES = 65_536
_ACCEPTED_AT_ONCE = 16
"""Connections that are accepted before the limits are applied: more could use up the files of the process."""


class ConnectionGuard:
    """An ASGI application that limits the connections of its clients.

    At a limit, the oldest connection without a running request is closed: of the same client, or of the client with the
    most connections. If all of them serve requests, the new connection is closed.

    Args:
        app: The application.
        limits: The server's limits.
    """

    def __init__(self, app: ASGIApp, limits: ServerLimits) -> None:
        self.limits = limits
        self._app = app
        self._most = min(limits.connections, _half_of_open_files())
        self._open: dict[tuple[Any, ...], _Connection] = {}
        self._events: Counter[str] = Counter()
        self._reported_at = -_REPORT_SECONDS

    def __len__(self) -> int:
        return len(self._open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; the connection is not closed for being idle meanwhile."""
        connection = self._open.get(tuple(scope.get("client") or ()))
        if connection is None:
            await self._app(scope, receive, send)
            return
        connection.begin_request()
        try:
            await self._app(scope, receive, send)
        finally:
            connection.end_request()

    def config(self, **options: Any) -> uvicorn.Config:
        """Return uvicorn's configuration for this application, with more of its options."""

        def connect(**parts: Any) -> asyncio.Protocol:
            return _Connection(self, H11Protocol(**parts))

        return uvicorn.Config(
            self,
            http=connect,  # type: ignore[arg-type]  # it calls what it is given
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
            backlog=_ACCEPTED_AT_ONCE,
            ws="none",
            # The guard finds a connection by its client's address.
            proxy_headers=False,
            log_config=None,
            access_log=False,
            server_header=False,
            **{"log_level": "error", **options},
        )

    def admit(self, connection: _Connection) -> bool:
        """Register a new connection; return False if there is no room for it."""
        by_client = Counter(client[0] for client in self._open)
        crowded = None
        if by_client[connection.client[0]] >= self.limits.connections_per_client:
            crowded, event = connection.client[0], "client_limit"
        elif len(self._open) >= self._most:
            crowded, event = by_client.most_common(1)[0][0], "total_limit"
        if crowded is not None:
            self.count(event)
            idle = (each for each in self._open.values() if each.client[0] == crowded and not each.requests)
            if (oldest := next(idle, None)) is None:
                return False
            self.remove(oldest)
            oldest.abort()
        self._open[connection.client] = connection
        return True

    def remove(self, connection: _Connection) -> None:
        """Forget a closed connection."""
        if self._open.get(connection.client) is connection:
            del self._open[connection.client]

    def count(self, event: str) -> None:
        """Count an event for the log, which gets one line a minute even under attack."""
        self._events[event] += 1
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = now
            _log.warning("connections closed", extra={"fields": {**self._events, "open": len(self)}})
            self._events.clear()

    def count_exhausted_files(self) -> None:
        """Let the running event loop count failures to accept a connection; it would log a traceback for each."""
        loop = asyncio.get_running_loop()

        def on_exception(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                self.count("out_of_files")
            else:
                loop.default_exception_handler(context)

        loop.set_exception_handler(on_exception)


class _Connection(asyncio.Protocol):
    """Passes everything on to uvicorn, and closes a connection that is idle or that nobody reads from."""

    def __init__(self, guard: ConnectionGuard, http: asyncio.Protocol) -> None:
        self._guard = guard
        self._http = http
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.requests = 0
        """How many requests are being served."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.client = tuple((transport.get_extra_info("peername") or ("", id(self)))[:2])
        self._http.connection_made(transport)
        if self._guard.admit(self):
            self._start_timer("no_request", self._guard.limits.header_seconds)
        else:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.remove(self)
        for event in list(self._timers):
            self._stop_timer(event)
        self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # What arrives does not extend the time for the header.
        try:
            self._http.data_received(data)
        except h11.ProtocolError:
            self.abort()  # it came after the response had begun, so there is no way to answer it

    def eof_received(self) -> bool | None:
        return self._http.eof_received()

    def pause_writing(self) -> None:
        self._http.pause_writing()
        self._start_timer("not_reading", self._guard.limits.stall_seconds)

    def resume_writing(self) -> None:
        self._http.resume_writing()
        self._stop_timer("not_reading")

    def begin_request(self) -> None:
        self.requests += 1
        self._stop_timer("no_request")

    def end_request(self) -> None:
        self.requests -= 1
        if not self.requests and not self._transport.is_closing():
            self._start_timer("no_request", self._guard.limits.header_seconds)

    def abort(self) -> None:
        """Close the connection at once, without waiting for the client to read the rest."""
        self._transport.abort()

    def _start_timer(self, event: str, seconds: float) -> None:
        self._stop_timer(event)
        self._timers[event] = asyncio.get_running_loop().call_later(seconds, self._close, event)

    def _stop_timer(self, event: str) -> None:
        if (timer := self._timers.pop(event, None)) is not None:
            timer.cancel()

    def _close(self, event: str) -> None:
        self._guard.count(event)
        self.abort()


def _half_of_open_files() -> int:
    """Return half of the files that the process may open: the rest is for the index, the cache and the model."""
    with contextlib.suppress(ImportError):  # Windows has no such limit
        import resource  # noqa: PLC0415

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return max(8, soft // 2)
    return 1_000_000
