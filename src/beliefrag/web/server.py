"""Runs an application on uvicorn: with limits on connections, and with a clean end.

Uvicorn limits the size of a header, but neither the time for it nor the number of connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from beliefrag.errors import SettingsError
from beliefrag.web.limits import ServerLimits
from beliefrag.web.service import AnswerService

_END_SECONDS = 1.0
"""Seconds that cancelled episodes have to tell their clients."""
_REPORT_SECONDS = 60.0
_MAX_HEADER_BYTES = 65_536
_ACCEPTED_AT_ONCE = 16
"""Connections that are accepted before the limits apply: more could use up the files of the process."""
_WAITING_CONNECTIONS = 2048
_REFUSED_SECONDS = 2.0
"""Seconds in which a client can read why its connection is refused; closing at once could discard it."""
_NO_ROOM = b'{"type":"urn:beliefrag:busy","title":"Service Unavailable","status":503,"detail":"Too many connections."}'
_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nCache-Control: no-store\r\n"
_REFUSAL += b"Content-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n%b" % (len(_NO_ROOM), _NO_ROOM)
_log = logging.getLogger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket to the address, before anything costly is opened."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as stack:
            bound = stack.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            stack.pop_all()
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a port number"
        raise SettingsError(
            f"Cannot listen at {host}, port {port}: {reason}.", remedy="Choose another --host or --port."
        ) from None
    return bound


class ConnectionGuard:
    """An ASGI application that limits the connections of its clients.

    At a limit, the oldest connection without a running request is closed: of the same client, or of the client with the
    most connections. If all of them serve requests, the new connection is closed. One that had no answer yet gets 503.
    """

    def __init__(self, app: ASGIApp, limits: ServerLimits) -> None:
        self.limits = limits
        self._app = app
        self.most = min(limits.connections, _half_of_open_files())
        self._open: dict[tuple[Any, ...], _Connection] = {}
        self.refused = 0
        """How many connections are open only until their clients have read a refusal."""
        self._events: Counter[str] = Counter()
        self._reported_at = -_REPORT_SECONDS

    def __len__(self) -> int:
        return len(self._open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; its connection is not idle meanwhile."""
        connection = self._open.get(tuple(scope.get("client") or ()))
        with connection.request() if connection is not None else contextlib.nullcontext():
            await self._app(scope, receive, send)

    def config(self, **options: Any) -> uvicorn.Config:
        """Return uvicorn's configuration for this application, with more of its options."""
        return uvicorn.Config(
            self,
            http=lambda **parts: _Connection(self, H11Protocol(**parts)),  # type: ignore[arg-type]  # any callable
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
            backlog=_ACCEPTED_AT_ONCE,
            ws="none",
            # A connection is found by its client's address.
            proxy_headers=False,
            log_config=None,
            access_log=False,
            server_header=False,
            **{"log_level": "error", **options},
        )

    def admit(self, connection: _Connection) -> bool:
        """Register a new connection; return whether there is room for it."""
        host = connection.client[0]
        by_host = Counter(client[0] for client in self._open)
        is_full = len(self._open) >= self.most
        if is_full or by_host[host] >= self.limits.connections_per_client:
            self.count("total_limit" if is_full else "client_limit")
            if by_host[host] < self.limits.connections_per_client:
                host = by_host.most_common(1)[0][0]
            idle = (each for each in self._open.values() if each.client[0] == host and not each.is_busy)
            if (oldest := next(idle, None)) is None:
                return False
            self.remove(oldest)
            oldest.refuse()
        self._open[connection.client] = connection
        return True

    def remove(self, connection: _Connection) -> None:
        """Forget a closed connection."""
        if self._open.get(connection.client) is connection:
            del self._open[connection.client]

    def abort_all(self) -> None:
        """Close all connections at once."""
        for connection in list(self._open.values()):
            connection.transport.abort()

    def count(self, event: str) -> None:
        """Count a closed connection for the log, which gets one line a minute even under attack."""
        self._events[event] += 1
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = now
            _log.warning("connections closed", extra={"fields": {**self._events, "open": len(self)}})
            self._events.clear()


class _Connection(asyncio.Protocol):
    """Passes everything on to uvicorn, and closes a connection that is idle or whose client does not read."""

    transport: asyncio.Transport
    client: tuple[Any, ...]

    def __init__(self, guard: ConnectionGuard, http: H11Protocol) -> None:
        self._guard = guard
        self._http = http
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.requests = 0
        """How many requests are being served."""
        self._has_served = self._is_refused = False
        self.eof_received = http.eof_received  # type: ignore[method-assign]

    @property
    def is_busy(self) -> bool:
        """Whether a request has arrived that is not answered yet."""
        return self.requests > 0 or (self._http.cycle is not None and not self._http.cycle.response_complete)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.client = tuple((transport.get_extra_info("peername") or ("", id(self)))[:2])
        self._http.connection_made(transport)
        if self._guard.admit(self):
            self._start_timer("no_request", self._guard.limits.header_seconds)
        else:
            self.refuse()

    def refuse(self) -> None:
        """Close the connection, with the reason if the client has had no answer yet."""
        if self._has_served or 2 * self._guard.refused >= self._guard.most:
            self.transport.abort()
            return
        self._is_refused = True
        self._guard.refused += 1
        self.transport.write(_REFUSAL)
        self._start_timer("refused", _REFUSED_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.remove(self)
        self._guard.refused -= self._is_refused
        for event in list(self._timers):
            self._stop_timer(event)
        self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        # What arrives does not extend the time for the header.
        try:
            self._http.data_received(data)
        except h11.ProtocolError:
            self.transport.abort()  # the response has begun, and cannot become an error

    def pause_writing(self) -> None:
        self._http.pause_writing()
        self._start_timer("not_reading", self._guard.limits.stall_seconds)

    def resume_writing(self) -> None:
        self._http.resume_writing()
        self._stop_timer("not_reading")

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        self.requests += 1
        self._has_served = True
        self._stop_timer("no_request")
        try:
            yield
        finally:
            self.requests -= 1
            if not self.requests and not self.transport.is_closing():
                self._start_timer("no_request", self._guard.limits.header_seconds)

    def _start_timer(self, event: str, seconds: float) -> None:
        self._stop_timer(event)
        self._timers[event] = asyncio.get_running_loop().call_later(seconds, self._close, event)

    def _stop_timer(self, event: str) -> None:
        if event in self._timers:
            self._timers.pop(event).cancel()

    def _close(self, event: str) -> None:
        self._guard.count(event)
        self.transport.abort()


class AnswerServer(uvicorn.Server):
    """A uvicorn server that drains its service before it ends."""

    def __init__(self, app: ASGIApp, service: AnswerService, *, on_listening: Callable[[], None] | None = None) -> None:
        self.connections = ConnectionGuard(app, service.limits)
        seconds = int(service.limits.grace + 2 * _END_SECONDS) + 1
        super().__init__(self.connections.config(lifespan="on", timeout_graceful_shutdown=seconds))
        self._service = service
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen and only then log the address: a client may connect as soon as it reads it."""
        await super().startup(sockets)
        for bound in sockets or ():
            # The event loop takes one number for this and for how many it accepts at once.
            bound.listen(_WAITING_CONNECTIONS)
            host, port = bound.getsockname()[:2]
            address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            _log.info("listening", extra={"fields": {"address": address}})
        if self._on_listening is not None:
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, drain the service and close the connections."""
        _log.info("shutting down", extra={"fields": {"episodes": self._service.admission.in_flight}})
        draining = asyncio.create_task(self._drain())
        try:
            await super().shutdown(sockets)
        finally:
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)

    async def _drain(self) -> None:
        await self._service.drain()
        await asyncio.sleep(_END_SECONDS)
        # Streams on which clients only listen would never end.
        self.connections.abort_all()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM. Uvicorn would raise them again after a clean end."""
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, earlier in before.items():
                signal.signal(number, earlier)


def serve(
    app: ASGIApp, service: AnswerService, bound: socket.socket, *, on_listening: Callable[[], None] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM."""
    asyncio.run(AnswerServer(app, service, on_listening=on_listening).serve(sockets=[bound]))


def _half_of_open_files() -> int:
    """Return half of the files that the process may open: the rest is for the index, the cache and the model."""
    with contextlib.suppress(ImportError):  # Windows has no such limit
        import resource  # noqa: PLC0415

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return max(8, soft // 2)
    return 1_000_000
