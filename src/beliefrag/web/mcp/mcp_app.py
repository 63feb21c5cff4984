"""Serves MCP over HTTP, with the protection of `serve http`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Mapping, Sequence

from fastapi import FastAPI
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from sse_starlette.sse import AppStatus
from starlette.routing import Route

from beliefrag.web.auth import AllowedHosts, ServerAuth, is_loopback
from beliefrag.web.health import health_routes
from beliefrag.web.limits import BodyLimit
from beliefrag.web.mcp.tools import create_mcp_server
from beliefrag.web.request_log import RequestLog
from beliefrag.web.service import AnswerService

_MAX_SESSIONS = 256
"""How many sessions of earlier protocols may be open; a new one then ends the one that was used longest ago."""
_SESSION_IDLE_SECONDS = 300.0
"""Seconds after which a session without a request ends."""


def create_mcp_app(
    service: AnswerService,
    *,
    token: str | None = None,
    host: str = "127.0.0.1",
    allowed_hosts: Sequence[str] = (),
    readers: Mapping[str, frozenset[str]] | None = None,
) -> FastAPI:
    """Create the server as an ASGI application, with the middleware of `beliefrag serve http` in the same order."""
    # The library would end running calls at once. They have the grace period, and our server ends the other streams.
    AppStatus.enable_automatic_graceful_drain = False
    limits = service.limits
    manager = _Sessions(
        create_mcp_server(service),
        security_settings=_transport_security(host, allowed_hosts),
        max_request_body_size=limits.request_bytes,
        session_idle_timeout=_SESSION_IDLE_SECONDS,
        max_sessions=_MAX_SESSIONS + limits.connections,
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
    hosts = AllowedHosts.for_address(host, allowed_hosts)
    app.add_middleware(ServerAuth, hosts=hosts, token=token, readers=readers)
    app.add_middleware(RequestLog)
    return app


class _Sessions(StreamableHTTPSessionManager):
    """Ends the session that has been idle for the longest time when there are too many: no client is locked out."""

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        scopes = [each.idle_scope for each in self._server_instances.values() if each.idle_scope is not None]
        # A session has a deadline while no request of it is served.
        idle = [scope for scope in scopes if scope.deadline < math.inf and not scope.cancel_called]
        if idle and len(scopes) >= _MAX_SESSIONS:
            min(idle, key=lambda scope: scope.deadline).cancel()
        return super()._admit_session(requestor)


def _transport_security(host: str, allowed_hosts: Sequence[str]) -> TransportSecuritySettings:
    """Return the Host and Origin headers that the library accepts, against DNS rebinding.

    At an address that other machines reach the names may be unknown; there the token keeps web pages out.
    """
    names = {*allowed_hosts}
    if is_loopback(host):
        names |= {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host}
    hosts = [form for name in sorted(names) for form in (name, f"{name}:*")]
    origins = [f"{scheme}://{form}" for scheme in ("http", "https") for form in hosts]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=bool(names), allowed_hosts=hosts, allowed_origins=origins
    )
