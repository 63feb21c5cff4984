"""Runs the MCP server: on standard input and output for one agent, or on HTTP for several."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator, Sequence

from mcp.server.stdio import stdio_server
from starlette.types import ASGIApp

from beliefrag.web.http.server import Server
from beliefrag.web.http.service import Service
from beliefrag.web.mcp.app import create_mcp_app
from beliefrag.web.mcp.disconnect import Leaving
from beliefrag.web.mcp.server import create_server

__all__ = ["McpServer", "serve_mcp_http", "serve_mcp_stdio"]


def serve_mcp_stdio(service: Service) -> None:
    """Serves one client until it closes the pipe. Standard output carries the protocol and nothing else.

    After SIGINT or SIGTERM the process ends at once, with 130 or 143.
    """

    async def run() -> None:
        serving = asyncio.create_task(_converse(service))
        signalled = asyncio.create_task(_first_signal())
        await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            await service.drain()
            await service.aclose()
            # A thread waits for the client's next line and cannot be woken: an orderly exit would wait for it.
            os._exit(128 + signalled.result())
        signalled.cancel()
        await service.aclose()
        try:
            serving.result()
        except* ConnectionError:
            # The client died without closing its end first: nobody is left to be told.
            pass

    with _library_log():
        asyncio.run(run())


async def _converse(service: Service) -> None:
    server = create_server(service)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _first_signal() -> int:
    loop = asyncio.get_running_loop()
    first: asyncio.Future[int] = loop.create_future()

    def take(number: int) -> None:
        if not first.done():
            first.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, take, number)
    return await first


def serve_mcp_http(
    service: Service, bound: socket.socket, *, token: str | None, host: str, allowed_hosts: Sequence[str] = ()
) -> None:
    """Serves until SIGINT or SIGTERM, then lets calls under way finish within the grace."""
    app, leaving = create_mcp_app(service, token=token, host=host, allowed_hosts=allowed_hosts)
    with _library_log():
        asyncio.run(McpServer(app, service, leaving).serve(sockets=[bound]))


class McpServer(Server):
    """A server that, told to end, first lets go of clients that only listen.

    Args:
        app: The application.
        service: Whose episodes are given a grace.
        leaving: What ends the streams of those clients.
    """

    def __init__(self, app: ASGIApp, service: Service, leaving: Leaving) -> None:
        super().__init__(app, service)
        self._leaving = leaving

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops listening, drains, and closes the connections."""
        # A client that only listens would hold the end up for as long as it likes.
        self._leaving.close()
        await super().shutdown(sockets)


@contextlib.contextmanager
def _library_log() -> Iterator[None]:
    """What the MCP library has to say goes where our own log goes; its warnings quote headers, so errors only."""
    library, ours = logging.getLogger("mcp"), logging.getLogger("beliefrag")
    before = library.handlers, library.propagate, library.level
    debugging = ours.getEffectiveLevel() <= logging.DEBUG
    library.handlers, library.propagate = ours.handlers, False
    library.setLevel(logging.DEBUG if debugging else logging.ERROR)
    try:
        yield
    finally:
        library.handlers, library.propagate = before[:2]
        library.setLevel(before[2])
