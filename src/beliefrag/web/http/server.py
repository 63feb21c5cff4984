"""Runs the application on uvicorn, and ends it cleanly: no new questions, a grace for those under way, then an end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from beliefrag.errors import SettingsError
from beliefrag.web.http.service import Service

__all__ = ["Server", "listen", "serve"]

_AFTERWARDS = 5.0
"""Seconds for cancelled episodes to tell their clients."""
_log = logging.getLogger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to the address, before anything costly is opened.

    Raises:
        SettingsError: The address cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise SettingsError(
            f"Cannot listen at {host}, port {port}: {error.strerror}.", remedy="Choose another --host or --port."
        ) from None
    return bound


def address_of(bound: socket.socket) -> str:
    """The address as people type it."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """A uvicorn server that drains its service when it is told to end.

    Args:
        app: The application.
        service: Whose episodes are given a grace.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="on",
                timeout_graceful_shutdown=int(service.limits.grace + _AFTERWARDS) + 1,
            )
        )
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen, and says so only then: whoever waits for the line may connect at once."""
        await super().startup(sockets)
        for bound in sockets or ():
            _log.info("listening", extra={"fields": {"address": address_of(bound)}})

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops listening, drains, and closes the connections."""
        _log.info("shutting down", extra={"fields": {"episodes": self._service.gate.in_flight}})
        draining = asyncio.create_task(self._service.drain())
        try:
            await super().shutdown(sockets)
        finally:
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes SIGINT and SIGTERM. An end that was asked for and went well is no failure, so none is raised again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handler: Callable[[int, FrameType | None], None] = self.handle_exit
        before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, earlier in before.items():
                signal.signal(number, earlier)


def serve(app: ASGIApp, service: Service, bound: socket.socket) -> None:
    """Serves until SIGINT or SIGTERM."""
    asyncio.run(Server(app, service).serve(sockets=[bound]))
