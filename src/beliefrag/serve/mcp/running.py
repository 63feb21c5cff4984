"""Runs the MCP server: on standard input and output for one agent, or on HTTP for several."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator, Sequence

from mcp.server.stdio import stdio_server
from starlette.types import ASGIApp

from beliefrag.serve.http.server import Server, address_of
from beliefrag.serve.http.service import Service
from beliefrag.serve.mcp.app import PATH, create_mcp_app
from beliefrag.serve.mcp.leaving import Leaving
from beliefrag.serve.mcp.server import create_server

__all__ = ["serve_mcp_http", "serve_mcp_stdio"]

_log = logging.getLogger(__name__)


def serve_mcp_stdio(service: Service) -> None:
    """Serves one client until it closes the pipe. Standard output carries the protocol and nothing else."""

    async def run() -> None:
        server = create_server(service)
        try:
            async with stdio_server() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            await service.aclose()

    with _library_log():
        asyncio.run(run())


def serve_mcp_http(
    service: Service, bound: socket.socket, *, token: str | None, host: str, allowed_hosts: Sequence[str] = ()
) -> None:
    """Serves until SIGINT or SIGTERM, then lets calls under way finish within the grace."""
    app, leaving = create_mcp_app(service, token=token, host=host, allowed_hosts=allowed_hosts)

    async def run() -> None:
        _log.info("listening", extra={"fields": {"address": address_of(bound) + PATH}})
        await _Server(app, service, leaving).serve(sockets=[bound])

    with _library_log():
        asyncio.run(run())


class _Server(Server):
    def __init__(self, app: ASGIApp, service: Service, leaving: Leaving) -> None:
        super().__init__(app, service)
        self._leaving = leaving

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
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
