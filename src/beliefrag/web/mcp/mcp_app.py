"""Serves MCP over HTTP, with the protection of `serve http`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route

from beliefrag.web.auth import AllowedHosts, BearerToken, ServerAuth, is_loopback
from beliefrag.web.health import health_routes
from beliefrag.web.limits import BodyLimit
from beliefrag.web.mcp.disconnect import DisconnectMonitor
from beliefrag.web.mcp.mcp_stdio import library_log
from beliefrag.web.mcp.tools import create_mcp_server
from beliefrag.web.request_log import RequestLog
from beliefrag.web.server import AnswerServer
from beliefrag.web.server_metrics import ServerMetrics
from beliefrag.web.service import AnswerService

__all__ = ["create_mcp_app", "serve_mcp_http"]

_PATH = "/mcp"


def create_mcp_app(
    service: AnswerService,
    *,
    token: str | None = None,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
) -> tuple[FastAPI, DisconnectMonitor]:
    """Create the server as an ASGI application, and what ends its idle streams at shutdown.

    The middleware is that of `beliefrag serve http`, in the same order.

    Args:
        service: What answers.
        token: The bearer token; None lets everybody in.
        host: The address that it will listen at.
        allowed_hosts: More names by which clients may call it.
    """
    limits = service.limits
    manager = StreamableHTTPSessionManager(
        create_mcp_server(service),
        security_settings=_transport_security(host, allowed_hosts),
        max_request_body_size=limits.request_bytes,
        session_idle_timeout=limits.session_idle_seconds,
        max_sessions=limits.sessions,
    )
    monitor = DisconnectMonitor(StreamableHTTPASGIApp(manager))

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with manager.run():
            yield
        await service.aclose()

    app = FastAPI(lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    app.include_router(health_routes(service))
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
) -> None:
    """Serve until SIGINT or SIGTERM, then let running calls finish within the grace."""
    app, monitor = create_mcp_app(service, token=token, host=host, allowed_hosts=allowed_hosts)
    # A client that only listens could delay the end for as long as it likes.
    server = AnswerServer(app, service, before_shutdown=monitor.close_idle_streams)
    with library_log():
        asyncio.run(server.serve(sockets=[bound]))


def _transport_security(host: str, allowed_hosts: Sequence[str]) -> TransportSecuritySettings:
    """Return the Host and Origin headers that the library accepts, against DNS rebinding.

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
