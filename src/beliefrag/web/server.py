"""Runs an application on uvicorn and ends it cleanly: running episodes may finish, new questions are refused."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from beliefrag.errors import SettingsError
from beliefrag.web.connections import ConnectionGuard
from beliefrag.web.service import AnswerService

__all__ = ["AnswerServer", "format_address", "listen", "serve"]

_END_SECONDS = 5.0
"""Seconds that cancelled episodes have to tell their clients."""
_WAITING_CONNECTIONS = 2048
"""Connections that the operating system holds until they are accepted."""
_log = logging.getLogger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket to the address, before anything costly is opened.

    Raises:
        SettingsError: The address cannot be used.
    """
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


class AnswerServer(uvicorn.Server):
    """A uvicorn server that drains its service before it ends.

    Args:
        app: The application.
        service: Whose running episodes get a grace period.
        before_shutdown: Called at the beginning of the shutdown, to close what would never end by itself.
        on_listening: Called when it listens.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: AnswerService,
        *,
        before_shutdown: Callable[[], None] = lambda: None,
        on_listening: Callable[[], None] | None = None,
    ) -> None:
        self.connections = ConnectionGuard(app, service.limits)
        seconds = int(service.limits.grace + _END_SECONDS) + 1
        super().__init__(self.connections.config(lifespan="on", timeout_graceful_shutdown=seconds))
        self._service = service
        self._before_shutdown = before_shutdown
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen and only then log the address, so that a client may connect as soon as it reads it."""
        self.connections.count_exhausted_files()
        await super().startup(sockets)
        for bound in sockets or ():
            # The event loop takes one number for this and for how many it accepts at once.
            bound.listen(_WAITING_CONNECTIONS)
            _log.info("listening", extra={"fields": {"address": format_address(bound)}})
        if self._on_listening is not None:
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, drain the service and close the connections."""
        self._before_shutdown()
        _log.info("shutting down", extra={"fields": {"episodes": self._service.admission.in_flight}})
        draining = asyncio.create_task(self._service.drain())
        try:
            await super().shutdown(sockets)
        finally:
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM. Uvicorn would raise them again at the end, but a clean end is no failure."""
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


def format_address(bound: socket.socket) -> str:
    """Return the web address of a listening socket."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
