"""The MCP server over HTTP: the library's streamable transport inside, and our own protection around it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route

from beliefrag.web.http.access import Access, is_loopback
from beliefrag.web.http.bodies import BodyLimit
from beliefrag.web.http.health import health_routes
from beliefrag.web.http.metrics import Metrics
from beliefrag.web.http.request_log import Journal
from beliefrag.web.http.service import Service
from beliefrag.web.mcp.disconnect import Leaving
from beliefrag.web.mcp.server import create_server

__all__ = ["PATH", "create_mcp_app"]

PATH = "/mcp"
_SESSIONS = 256
"""Sessions of clients of earlier protocols at a time; each holds a task and little else."""


def create_mcp_app(
    service: Service, *, token: str | None = None, host: str = "127.0.0.1", allowed_hosts: Sequence[str] = ()
) -> tuple[FastAPI, Leaving]:
    """The server as an ASGI application, and what ends its idle streams when it is to end.

    The middleware is that of `beliefrag serve http`, in the same order.

    Args:
        service: What answers.
        token: The bearer token; None lets everybody in.
        host: The address that it will listen at.
        allowed_hosts: More names that it may be called by.
    """
    manager = StreamableHTTPSessionManager(
        create_server(service),
        security_settings=_security(host, allowed_hosts),
        max_request_body_size=service.limits.request_bytes,
        max_sessions=_SESSIONS,
    )
    leaving = Leaving(StreamableHTTPASGIApp(manager))

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with manager.run():
            yield
        await service.aclose()

    app = FastAPI(lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    app.include_router(health_routes(service))
    app.router.routes.append(Route(PATH, endpoint=leaving))
    app.add_middleware(BodyLimit, limits=service.limits)
    app.add_middleware(Access, token=token, host=host, allowed_hosts=allowed_hosts)
    app.add_middleware(Journal, metrics=Metrics(service))
    return app, leaving


def _security(host: str, allowed_hosts: Sequence[str]) -> TransportSecuritySettings:
    """Which Host and Origin headers are taken, against web pages that point a name of their own at this server.

    At an address that others reach, the names that it goes by are not known unless they are given; there the token,
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
