"""Limits on the sessions of clients of earlier MCP protocols, which last until the client ends them or is idle.

A client that opens sessions and ends none would otherwise lock all others out. The library limits only their total.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beliefrag.web.limits import ServerLimits
from beliefrag.web.problems import HttpProblem
from beliefrag.web.request_log import refuse

__all__ = ["SessionLimit"]


@dataclass(slots=True)
class _Session:
    client: str
    requests: int
    """How many of its requests are being served now."""
    last_used: float


class SessionLimit:
    """Middleware that refuses new sessions when there are too many, in all or of one client's address.

    Args:
        app: What serves MCP, and ends sessions after the same idle time.
        limits: How many sessions there may be, and after how many seconds without a request one ends.
    """

    def __init__(self, app: ASGIApp, limits: ServerLimits) -> None:
        self._app = app
        self._limits = limits
        self._sessions: dict[str, _Session] = {}
        self._opening: dict[str, int] = {}
        """Requests that may open a session and are being served now, by client."""

    def has_room(self) -> bool:
        """Says whether another client could open a session now."""
        self._forget_idle()
        return len(self._sessions) + sum(self._opening.values()) < self._limits.sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = scope["client"][0] if scope.get("client") else ""
        headers = Headers(scope=scope)
        if (known := headers.get(MCP_SESSION_ID_HEADER)) is not None:
            await self._serve(known, scope, receive, send)
        elif scope["method"] != "POST" or not _may_open_session(headers):
            await self._app(scope, receive, send)
        elif (problem := self._objection(client)) is not None:
            await refuse(scope, problem)(scope, receive, send)
        else:
            await self._open(client, scope, receive, send)

    async def _open(self, client: str, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_notice(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                opened = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                if opened is not None:
                    self._sessions[opened] = _Session(client, 0, time.monotonic())
            await send(message)

        self._opening[client] = self._opening.get(client, 0) + 1
        try:
            await self._app(scope, receive, send_and_notice)
        finally:
            self._opening[client] -= 1
            if not self._opening[client]:
                del self._opening[client]

    async def _serve(self, session_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            await self._app(scope, receive, send)
            return

        async def send_and_notice(message: Message) -> None:
            if message["type"] == "http.response.start":
                ended = scope["method"] == "DELETE" and message["status"] < 300
                if ended or message["status"] == 404:
                    self._sessions.pop(session_id, None)
            await send(message)

        session.requests += 1
        try:
            await self._app(scope, receive, send_and_notice)
        finally:
            session.requests -= 1
            session.last_used = time.monotonic()

    def _objection(self, client: str) -> HttpProblem | None:
        self._forget_idle()
        minutes = f"{self._limits.session_idle_seconds / 60:g}"
        remedy = f"End sessions with DELETE; an idle one ends after {minutes} minutes."
        retry = {"Retry-After": str(int(self._limits.session_idle_seconds) + 1)}
        mine = sum(session.client == client for session in self._sessions.values()) + self._opening.get(client, 0)
        if mine >= self._limits.sessions_per_client:
            words = f"There are {mine} open sessions of this client."
            return HttpProblem(429, "too_many_sessions", words, remedy=remedy, headers=retry)
        if not self.has_room():
            words = f"There are {len(self._sessions)} open sessions."
            return HttpProblem(503, "too_many_sessions", words, remedy=remedy, headers=retry)
        return None

    def _forget_idle(self) -> None:
        before = time.monotonic() - self._limits.session_idle_seconds
        idle = [key for key, each in self._sessions.items() if not each.requests and each.last_used < before]
        for key in idle:
            del self._sessions[key]


def _may_open_session(headers: Headers) -> bool:
    """Says whether a request is of an earlier protocol. Since that of 2026-07-28 there are no sessions."""
    version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
