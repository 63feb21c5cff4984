"""Serves MCP: over standard input and output to one agent, or over HTTP, with the protection of `serve http`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Sequence

from fastapi import FastAPI
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route

from beliefrag.web.auth import AllowedHosts, BearerToken, ServerAuth, is_loopback
from beliefrag.web.health import health_routes
from beliefrag.web.limits import BodyLimit
from beliefrag.web.mcp.disconnect import DisconnectMonitor
from beliefrag.web.mcp.sessions import SessionLimit
from beliefrag.web.mcp.tools import create_mcp_server
from beliefrag.web.reload import IndexReloader
from beliefrag.web.request_log import RequestLog
from beliefrag.web.server import AnswerServer
from beliefrag.web.server_metrics import ServerMetrics
from beliefrag.web.service import AnswerService

__all__ = ["create_mcp_app", "serve_mcp_http", "serve_mcp_stdio"]

_PATH = "/mcp"


def create_mcp_app(
    service: AnswerService,
    *,
    token: str | None = None,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
    reloader: IndexReloader | None = None,
) -> tuple[FastAPI, DisconnectMonitor]:
    """Creates the server as an ASGI application, and what ends its idle streams at shutdown.

    The middleware is that of `beliefrag serve http`, in the same order.

    Args:
        service: What answers.
        token: The bearer token; None lets everybody in.
        host: The address that it will listen at.
        allowed_hosts: More names by which clients may call it.
        reloader: Opens new versions of the index; None where the passages cannot change.
    """
    limits = service.limits
    manager = StreamableHTTPSessionManager(
        create_mcp_server(service),
        security_settings=_transport_security(host, allowed_hosts),
        max_request_body_size=limits.request_bytes,
        session_idle_timeout=limits.session_idle_seconds,
        max_sessions=limits.sessions,
    )
    sessions = SessionLimit(StreamableHTTPASGIApp(manager), limits)
    monitor = DisconnectMonitor(sessions)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with manager.run(), reloader.watch() if reloader else contextlib.nullcontext():
            yield
        await service.aclose()

    app = FastAPI(lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    app.include_router(health_routes(service, {"sessions": sessions.has_room}))
    app.router.routes.append(Route(_PATH, endpoint=monitor))
    app.add_middleware(BodyLimit, limits=limits)
    hosts = AllowedHosts.for_address(host, allowed_hosts)
    app.add_middleware(ServerAuth, credential=BearerToken(token), hosts=hosts)
    app.add_middleware(RequestLog, metrics=ServerMetrics(service.admission))
    return app, monitor


def serve_mcp_http(
    service: AnswerService,
    bound: socket.socket,
    *,
    token: str | None,
    host: str,
    allowed_hosts: Sequence[str] = (),
    reloader: IndexReloader | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM, then lets running calls finish within the grace."""
    app, monitor = create_mcp_app(service, token=token, host=host, allowed_hosts=allowed_hosts, reloader=reloader)
    # A client that only listens could delay the end for as long as it likes.
    server = AnswerServer(app, service, before_shutdown=monitor.close_idle_streams)
    with _library_log():
        asyncio.run(server.serve(sockets=[bound]))


def serve_mcp_stdio(service: AnswerService, reloader: IndexReloader | None = None) -> None:
    """Serves one client until it closes the pipe. Standard output carries the protocol and nothing else.

    After SIGINT or SIGTERM the process ends at once, with 130 or 143.
    """

    async def run() -> None:
        serving = asyncio.create_task(_serve_pipe(service, reloader))
        signalled = asyncio.create_task(_wait_for_signal())
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
            # The client died without closing its end first, so nobody reads an error.
            pass

    with _library_log():
        asyncio.run(run())


async def _serve_pipe(service: AnswerService, reloader: IndexReloader | None) -> None:
    server = create_mcp_server(service)
    watching = reloader.watch() if reloader else contextlib.nullcontext()
    async with stdio_server() as (incoming, outgoing), watching:
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _wait_for_signal() -> int:
    loop = asyncio.get_running_loop()
    first: asyncio.Future[int] = loop.create_future()

    def on_signal(number: int) -> None:
        if not first.done():
            first.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, on_signal, number)
    return await first


def _transport_security(host: str, allowed_hosts: Sequence[str]) -> TransportSecuritySettings:
    """Gives the Host and Origin headers that the library accepts, against DNS rebinding.

    At an address that other machines reach, the server's names are not known unless they are given. There the token,
    which no web page has, keeps such pages out.
    """
    names = {"localhost", "127.0.0.1", "[::1]", *allowed_hosts} if is_loopback(host) else set(allowed_hosts)
    if not names:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    if is_loopback(host):
        names.add(f"[{host}]" if ":" in host else host)
    hosts = [form for name in sorted(names) for form in (name, f"{name}:*")]
    origins = [f"{scheme}://{form}" for scheme in ("http", "https") for form in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


@contextlib.contextmanager
def _library_log() -> Iterator[None]:
    """Sends the MCP library's log where ours goes. Only errors, because its warnings quote headers."""
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
