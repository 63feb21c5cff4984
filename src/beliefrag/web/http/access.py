"""Who may come in: a bearer token where one is set, and on loopback only requests that were meant for this server."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from beliefrag.errors import SettingsError
from beliefrag.web.http.note import note_of
from beliefrag.web.http.problems import Problem

__all__ = ["VARIABLE", "Access", "is_loopback", "read_token"]

VARIABLE = "BELIEFRAG_TOKEN"
_SHORTEST = 16
_OPEN = frozenset({"/healthz", "/readyz", "/v1/healthz", "/v1/readyz"})
"""Say nothing but yes or no, to whatever watches the server."""


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(file: Path | None, host: str) -> str | None:
    """The token from the file, or else from BELIEFRAG_TOKEN.

    Args:
        file: Where it stands, where somebody said so.
        host: The address to listen at.

    Raises:
        SettingsError: It cannot be read or is too weak, or there is none and the address is not loopback.
    """
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise SettingsError(f"The token file {file} cannot be read: {reason}.", remedy="Check the path.") from None
        source = f"The token in {file}"
    else:
        token, source = os.environ.get(VARIABLE, "").strip(), f"The token in {VARIABLE}"
    if not token and file is None:
        if is_loopback(host):
            return None
        raise SettingsError(
            f"At {host} others can reach the server, and there is no token.",
            remedy=f"Set {VARIABLE} or give --token-file, or listen at 127.0.0.1.",
        )
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(
            f"{source} cannot be used: it needs at least {_SHORTEST} ASCII characters without spaces.",
            remedy="Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'.",
        )
    return token


class Access:
    """Middleware that lets nobody past without the token.

    On loopback the Host header must be one of this machine's names. A web page can make a browser send requests here
    under a name of its own that it points at 127.0.0.1; it cannot choose another Host. Elsewhere any name will do,
    unless some are given.

    Args:
        app: What is protected.
        token: The token; None lets everybody in.
        host: The address that the server listens at.
        allowed_hosts: More names that the server may be called by.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, host: str, allowed_hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._digest = _digest(token.encode()) if token is not None else None
        more = [name.lower() for name in allowed_hosts]
        self._by_name = is_loopback(host) or bool(more)
        self._names = {"localhost", "127.0.0.1", "::1", host.lower(), *more}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers it."""
        if scope["type"] == "http":
            problem = self._objection(scope["path"], Headers(scope=scope))
            if problem is not None:
                note = note_of(scope)
                note.refused = problem.code
                await problem.response(scope["path"], note.request_id)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _objection(self, path: str, headers: Headers) -> Problem | None:
        if self._by_name and _name(headers.get("host", "")) not in self._names:
            return Problem(
                421,
                "wrong_host",
                "The Host header names another server.",
                remedy="Ask at localhost, or start the server with --allowed-host NAME.",
            )
        if self._digest is None or path in _OPEN:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Digests of equal length are compared, so the time taken tells nothing about the token.
        if hmac.compare_digest(_digest(given.strip().encode()), self._digest) and scheme.lower() == "bearer":
            return None
        return Problem(
            401,
            "unauthorised",
            "The token is missing or wrong.",
            remedy="Send the header Authorization: Bearer TOKEN.",
            headers={"WWW-Authenticate": "Bearer"},
        )


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _name(host: str) -> str:
    """A Host header without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
