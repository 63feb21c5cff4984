"""Serves MCP over HTTP, with the protection of `serve http`."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Sequence

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette.sse import AppStatus
from starlette.routing import Route

from beliefrag.web.auth import AllowedHosts, ServerAuth, is_loopback
from beliefrag.web.limits import BodyLimit
from beliefrag.web.mcp.tools import create_mcp_server
from beliefrag.web.monitoring import ServerMetrics, health_routes
from beliefrag.web.request_log import RequestLog
from beliefrag.web.server import serve
from beliefrag.web.service import AnswerService


def create_mcp_app(
    service: AnswerService, *, token: str | None = None, host: str = "127.0.0.1", allowed_hosts: Sequence[str] = ()
) -> FastAPI:
    """Create the server as an ASGI application; the middleware is that of `beliefrag serve http`, in the same order."""
    # The library would end running calls at once. They have the grace period, and our server ends the other streams.
    AppStatus.enable_automatic_graceful_drain = False
    limits = service.limits
    manager = StreamableHTTPSessionManager(
        create_mcp_server(service),
        security_settings=_transport_security(host, allowed_hosts),
        max_request_body_size=limits.request_bytes,
        session_idle_timeout=limits.session_idle_seconds,
        max_sessions=limits.sessions,
    )

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with manager.run():
            yield
        await service.aclose()

    app = FastAPI(lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    app.include_router(health_routes(service))
    app.router.routes.append(Route("/mcp", endpoint=StreamableHTTPASGIApp(manager)))
    app.add_middleware(BodyLimit, limits=limits)
    app.add_middleware(ServerAuth, hosts=AllowedHosts.for_address(host, allowed_hosts), token=token)
    app.add_middleware(RequestLog, metrics=ServerMetrics(service.admission))
    return app


def serve_mcp_http(
    service: AnswerService, bound: socket.socket, *, token: str | None, host: str, allowed_hosts: Sequence[str] = ()
) -> None:
    """Serve until SIGINT or SIGTERM, then let running calls finish within the grace period."""
    serve(create_mcp_app(service, token=token, host=host, allowed_hosts=allowed_hosts), service, bound)


def _transport_security(host: str, allowed_hosts: Sequence[str]) -> TransportSecuritySettings:
    """Return the Host and Origin headers that the library accepts, against DNS rebinding.

    At an address that other machines reach, the server's names are not known unless they are given. There the token,
    which no web page has, keeps such pages out.
    """
    names = {*allowed_hosts}
    if is_loopback(host):
        names |= {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host}
    hosts = [form for name in sorted(names) for form in (name, f"{name}:*")]
    origins = [f"{scheme}://{form}" for scheme in ("http", "https") for form in hosts]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=bool(names), allowed_hosts=hosts, allowed_origins=origins
    )
