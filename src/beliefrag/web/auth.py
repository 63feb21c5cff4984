"""Who may use a server: its names, the token of programs, the key of a browser, and the protective headers.

On loopback the Host header must be a name of this machine, against DNS rebinding. A browser gets its key in an address
and keeps it in a cookie; the address that a command opens itself works once, because others can read command lines.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beliefrag.errors import SettingsError
from beliefrag.settings import TokenRule
from beliefrag.web.problems import HttpProblem
from beliefrag.web.request_log import refuse

TOKEN_VARIABLE = "BELIEFRAG_TOKEN"  # noqa: S105 - the name of a variable
GROUPS = "beliefrag.groups"
"""Where the scope of a request holds the groups of its token."""
CLIENT = "beliefrag.client"
"""Where it holds the digest of its token, where tokens differ in rights."""
_MIN_TOKEN = 16
_MAX_PAGE_PATH = 200
"""Characters of a page's path. Python refuses to read numbers of thousands of digits."""
_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""They need no token: they only answer yes or no, to whatever watches the server."""
_COOKIE = "beliefrag_view"
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?", re.ASCII)

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
"""For pages: only our own files, nothing inline, and no way to turn text into markup."""
_API_POLICY = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine alone."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(file: Path | None, host: str) -> str | None:
    """Read the token from a file, or else from BELIEFRAG_TOKEN; only on loopback a server may have none."""
    try:
        token = (file.read_text(encoding="utf-8") if file else os.environ.get(TOKEN_VARIABLE, "")).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"The token file {file} cannot be read: {reason}.", remedy="Check the path.") from None
    if not token and file is None:
        if is_loopback(host):
            return None
        raise SettingsError(
            f"Other machines can reach a server at {host}, and it has no token.",
            remedy=f"Set {TOKEN_VARIABLE} or give --token-file, or listen at 127.0.0.1.",
        )
    if len(token) < _MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(
            f"The token in {file or TOKEN_VARIABLE} cannot be used: "
            f"a token needs at least {_MIN_TOKEN} ASCII characters without spaces.",
            remedy="Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'.",
        )
    return token


def read_readers(rules: Sequence[TokenRule], host: str) -> dict[str, frozenset[str]] | None:
    """Read the tokens of clients with their groups; None where the settings name none."""
    readers: dict[str, frozenset[str]] = {}
    for rule in rules:
        token = read_token(rule.file, host)
        assert token is not None
        if token in readers:
            raise SettingsError(
                f"The token in {rule.file} is in another file, too.", remedy="Give each client its own."
            )
        readers[token] = frozenset(rule.groups)
    return readers or None


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The names, and perhaps the port, by which clients may call a server; None accepts all that are well-formed."""

    names: Sequence[str] | None
    port: int | None = None
    remedy: str = ""

    @classmethod
    def for_address(cls, host: str, more_names: Iterable[str] = ()) -> AllowedHosts:
        """Return the names for a listening address: on loopback this machine's, elsewhere all unless some are given."""
        names = list(more_names)
        known = ["localhost", "127.0.0.1", "::1", host, *names]
        remedy = "Use localhost, or start the server with --allowed-host NAME."
        return cls(known if names or is_loopback(host) else None, remedy=remedy)

    def accept(self, headers: Headers) -> bool:
        """Return whether a request has exactly one Host header, and it names this server."""
        given = headers.getlist("host")
        found = _HOST.fullmatch(given[0].strip().lower()) if len(given) == 1 else None
        if found is None or (self.port is not None and found["port"] != str(self.port)):
            return False
        return self.names is None or (found["address"] or found["name"]) in {name.lower() for name in self.names}


@dataclass(eq=False, repr=False)
class BrowserKey:
    """A key in an address, then in a cookie, for the browser of the person who started the command.

    A second key works for one request alone. Cookies are shared between ports, so the cookie's name holds the port. If
    pages may send something, they must be pages of this very server.
    """

    port: int
    command: str
    may_send: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    once: str | None = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def address(self) -> str:
        """The address that holds the key."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    @property
    def address_once(self) -> str:
        """The address with the key that works once, for a command line that other users can read."""
        return f"http://127.0.0.1:{self.port}/?token={self.once}"

    def check(self, scope: Scope, headers: Headers) -> Response | None:
        """Move the key from the address into a cookie, and afterwards read it from there; else raise a problem."""
        if len(scope["path"]) > _MAX_PAGE_PATH:
            raise HttpProblem(404, "not_found", "This page does not exist.")
        sends = scope["method"] not in ("GET", "HEAD")
        if sends and not (self.may_send and scope["method"] == "POST"):
            raise HttpProblem(405, "wrong_method", "These pages can only be read.")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        given = "" if sends else query.get("token", "")
        used_once = scope["method"] == "GET" and self.once is not None and _is_same(given, self.once)
        if used_once:
            self.once = None
        if used_once or _is_same(given, self.token):
            answer = Response(status_code=303, headers={"Location": "/"})
            answer.set_cookie(f"{_COOKIE}_{self.port}", self.token, httponly=True, samesite="strict")
            return answer
        if not self._has_cookie(headers):
            words = f"Open the whole address that '{self.command}' printed: it holds a key."
            raise HttpProblem(403, "no_key", words)
        if sends and not _is_same_origin(headers):
            raise HttpProblem(403, "other_origin", "Only a page of this server may send this.")
        return None

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(f"{_COOKIE}_{self.port}")
        except CookieError:
            return False
        return morsel is not None and _is_same(morsel.value, self.token)


@dataclass(frozen=True, slots=True, repr=False)
class ServerAuth:
    """Middleware that refuses requests for other hosts and without the credential, and adds the protective headers.

    A server with pages is for a browser with its key alone; any other is for programs, with the token if it has one.
    """

    app: ASGIApp
    hosts: AllowedHosts
    token: str | None = None
    browser: BrowserKey | None = None
    readers: Mapping[str, frozenset[str]] | None = None
    """The tokens of clients with different rights, in place of the one token, and their groups."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on or refuse it."""
        own = _HEADERS | {"Content-Security-Policy": _API_POLICY if self.browser is None else PAGE_POLICY}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                headers = [(name.lower().encode(), value.encode()) for name, value in own.items()]
                message["headers"] = [*message["headers"], *(each for each in headers if each[0] not in present)]
            await send(message)

        refusal = self._check(scope) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> Response | None:
        headers, browser = Headers(scope=scope), self.browser
        try:
            if "content-length" in headers and "transfer-encoding" in headers:
                # A proxy may believe the one and this server the other, and then they disagree where the request ends.
                words = "The request has both Content-Length and Transfer-Encoding."
                raise HttpProblem(400, "ambiguous_length", words, headers={"Connection": "close"})
            if not self.hosts.accept(headers):
                words = "The Host header names another server."
                raise HttpProblem(421, "wrong_host", words, remedy=self.hosts.remedy)
            if browser is not None:
                return browser.check(scope, headers)
            self._check_token(scope, headers)
        except HttpProblem as problem:
            if browser is None:
                return refuse(scope, problem)
            return PlainTextResponse(str(problem), problem.status, headers=problem.headers)
        return None

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        known: Mapping[str, frozenset[str]] = {} if self.token is None else {self.token: frozenset()}
        known = known if self.readers is None else self.readers
        if scope["path"] in _OPEN_PATHS or (self.token is None and self.readers is None):
            return
        # All tokens are compared so that the time does not tell which one came near.
        groups = [groups for token, groups in known.items() if _is_same(given.strip(), token)]
        scope[GROUPS] = groups[0] if groups else frozenset()
        scope[CLIENT] = hashlib.sha256(given.strip().encode()).hexdigest()
        if not (groups and scheme.lower() == "bearer"):
            words, remedy = "The token is missing or wrong.", "Send the header Authorization: Bearer TOKEN."
            raise HttpProblem(401, "unauthorised", words, remedy=remedy, headers={"WWW-Authenticate": "Bearer"})


def _is_same_origin(headers: Headers) -> bool:
    """Return whether a page of the same server sends a request. Its scheme may be that of a proxy."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = urlsplit(headers.get("origin", ""))
    return origin.scheme in ("http", "https") and origin.netloc.lower() == headers.get("host", "").strip().lower()


def _is_same(given: str, secret: str) -> bool:
    """Compare digests of equal length: the time that it takes depends on neither text."""
    return hmac.compare_digest(*(hashlib.sha256(text.encode()).digest() for text in (given, secret)))
