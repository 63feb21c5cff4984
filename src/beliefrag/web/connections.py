"""Limits on connections, before any request is read: how many, how long without a request, how long without reading.

A client that opens connections and sends nothing, or half a header, would otherwise hold them for ever and use up the
files that the process may open. A client that stops reading a response would hold its episode.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import time
from collections import Counter
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from beliefrag.web.limits import ServerLimits

__all__ = ["ConnectionRegistry", "limited_protocol", "log_exhausted_files"]

_log = logging.getLogger(__name__)
_REPORT_SECONDS = 60.0
"""An attack makes thousands of events; the log gets one line a minute with their numbers."""
_MOST_HEAD_BYTES = 65_536
"""Bytes that a request's first line and headers may have; the parser itself has no limit."""
_MOST_FRAMING_BYTES = 1_048_576
"""Bytes beside the body that may come with it: the sizes of chunks, and what follows the last one."""
_OFFERS = frozenset({b"upgrade", b"connection", b"http2-settings"})
"""Headers by which a client offers another protocol."""
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})


class ConnectionRegistry:
    """All open connections of a server, with a limit for all and one for each client's address.

    At a limit the oldest connection without a running request makes room for the new one: of the same client, or of the
    client with the most connections. If all of them serve requests, the new connection is closed.

    Args:
        limits: The server's limits.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self._total = min(limits.connections, _half_of_open_files())
        self._by_client: dict[str, dict[LimitedProtocol, None]] = {}
        self._events: Counter[str] = Counter()
        self._reported_at = -_REPORT_SECONDS

    def __len__(self) -> int:
        return sum(len(connections) for connections in self._by_client.values())

    def admit(self, connection: LimitedProtocol) -> bool:
        """Register a new connection; return False if there is no room for it."""
        address = connection.address
        if len(self._by_client.get(address, ())) >= self.limits.connections_per_client:
            admitted = self._make_room(address, "client_limit")
        elif len(self) >= self._total:
            largest = max(self._by_client, key=lambda client: len(self._by_client[client]))
            admitted = self._make_room(largest, "total_limit")
        else:
            admitted = True
        if admitted:
            self._by_client.setdefault(address, {})[connection] = None
        return admitted

    def remove(self, connection: LimitedProtocol) -> None:
        """Forget a connection that was closed."""
        connections = self._by_client.get(connection.address, {})
        connections.pop(connection, None)
        if not connections:
            self._by_client.pop(connection.address, None)

    def count(self, event: str) -> None:
        """Count an event for the log, which gets one line a minute."""
        self._events[event] += 1
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = now
            _log.warning("connections closed", extra={"fields": {**self._events, "open": len(self)}})
            self._events.clear()

    def _make_room(self, address: str, event: str) -> bool:
        self.count(event)
        for connection in self._by_client.get(address, {}):
            if connection.is_waiting:
                self.remove(connection)
                connection.abort()
                return True
        return False


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is closed if its next request does not arrive in time, or if its client stops reading."""

    registry: ClassVar[ConnectionRegistry]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._request_timer: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None
        self._reads_head = True
        self._bytes_beside_body = 0

    @property
    def address(self) -> str:
        """The client's address without its port."""
        return self.client[0] if self.client else ""

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being served."""
        return self.cycle is None or self.cycle.response_complete

    def abort(self) -> None:
        """Close the connection at once, without waiting for the client to read the rest."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Registers the connection, or close it if there are too many."""
        super().connection_made(transport)
        if self.registry.admit(self):
            self._update_request_timer()
        else:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.registry.remove(self)
        for timer in (self._request_timer, self._reading_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request. A part does not extend the time that the whole header has."""
        self._bytes_beside_body += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline_upgrade(data[offer.args[0] :])
        except httptools.HttpParserError:
            self.registry.count("not_http")
            self.send_400_response("Invalid HTTP request received.")
        most = _MOST_HEAD_BYTES if self._reads_head else _MOST_FRAMING_BYTES
        if self._bytes_beside_body > most and not self.transport.is_closing():
            self.registry.count("too_long")
            self.send_400_response(f"More than {most} bytes came with the request beside its body.")
        self._update_request_timer()

    def _decline_upgrade(self, rest: bytes) -> None:
        """Read a request that offers another protocol again without the offer: the parser leaves its body out."""
        self.registry.count("upgrade_refused")
        method = self.parser.get_method()
        kept = [(name, value) for name, value in self.headers if name not in _OFFERS]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does: what follows is dropped
        if method == b"CONNECT":
            self.send_400_response("Invalid HTTP request received.")
            return
        head = b"".join(b"%b: %b\r\n" % header for header in (*kept, (b"connection", b"close")))
        self.data_received(b"%b %b HTTP/1.1\r\n%b\r\n%b" % (method, self.url, head, rest))

    def on_message_begin(self) -> None:
        """Begin to read a request."""
        super().on_message_begin()
        self._reads_head = True
        self._bytes_beside_body = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. One that comes after the body is left out: the headers were looked at before."""
        if self._reads_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start to serve the request, unless it offers another protocol: then it is read again."""
        if not self.parser.should_upgrade():
            self._reads_head = False
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body."""
        self._bytes_beside_body -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request: what comes next belongs to the next one."""
        if not self.parser.should_upgrade():
            super().on_message_complete()
            self._reads_head = True
            self._bytes_beside_body = 0

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._update_request_timer()

    def pause_writing(self) -> None:
        """Give the client some time to read what was sent."""
        super().pause_writing()
        self._reading_timer = self.loop.call_later(self.registry.limits.stall_seconds, self._close_late, "not_reading")

    def resume_writing(self) -> None:
        """Goes on, because the client has read."""
        super().resume_writing()
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None

    def _update_request_timer(self) -> None:
        if not self.is_waiting:
            if self._request_timer is not None:
                self._request_timer.cancel()
                self._request_timer = None
        elif self._request_timer is None:
            seconds = self.registry.limits.header_seconds
            self._request_timer = self.loop.call_later(seconds, self._close_late, "no_request")

    def _close_late(self, event: str) -> None:
        # An idle connection after a request is nothing to report.
        if event != "no_request" or self.cycle is None:
            self.registry.count(event)
        self.abort()


def limited_protocol(registry: ConnectionRegistry) -> type[LimitedProtocol]:
    """Return the protocol class for uvicorn, which registers its connections there."""
    return type("RegisteredProtocol", (LimitedProtocol,), {"registry": registry})


def log_exhausted_files(registry: ConnectionRegistry) -> None:
    """Lets the running event loop count failures to accept a connection, which it would log with a traceback each."""
    loop = asyncio.get_running_loop()

    def on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _OUT_OF_FILES:
            registry.count("out_of_files")
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(on_exception)


def _half_of_open_files() -> int:
    """Return half of the files that the process may open: the rest is for the index, the cache and the model."""
    with contextlib.suppress(ImportError):  # Windows has no such limit
        import resource  # noqa: PLC0415

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return max(8, soft // 2)
    return 1_000_000
