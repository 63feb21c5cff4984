"""Who may read the pages: the person who started the command, in a browser on this machine.

The server listens on loopback. Other users of the machine, and web pages that guess the port, lack the token: it is in
the address that the command prints, and moves from there into a cookie that scripts and other sites cannot use. A
browser that the command opens gets an address of its own, which works once: other users can read the command lines of
processes, and find a key there that opens nothing any more. The `Host` header must name loopback, so that a foreign
name that was made to point here (DNS rebinding) is refused.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["POLICY", "Guard"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
"""Nothing but our own files, nothing inline, and no way to turn text into markup."""

_LONGEST = 200
"""Characters of a path: ours are short, and a number of thousands of digits is one that Python refuses to read."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets requests through that come from the right browser, and puts the protective headers on every answer.

    Args:
        app: What to guard.
        token: What the browser must know.
        once: What the first request may know in its place.
        port: Where the server listens; cookies do not tell ports apart, so its name holds it.
    """

    def __init__(self, app: ASGIApp, token: str, once: str, port: int) -> None:
        self._app = app
        self._token = token
        self._once: str | None = once
        self._cookie = f"beliefrag_view_{port}"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                added = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *(each for each in added if each[0] not in own)]
            await send(message)

        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("host") not in self._hosts:
            return Response("This server answers to 127.0.0.1 alone.", 403, media_type="text/plain")
        if len(scope["path"]) > _LONGEST:
            return Response("There is no such page.", 404, media_type="text/plain")
        if scope["method"] not in ("GET", "HEAD"):
            return Response("There is nothing to change here.", 405, media_type="text/plain")
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token", "")
        if self._is_token(given) or self._spends(given, scope["method"]):
            rest = urlencode([each for each in query if each[0] != "token"])
            # Only the path counts: one that begins with two slashes would name another machine.
            target = "/" + scope["path"].lstrip("/") + (f"?{rest}" if rest else "")
            answer = Response(status_code=303, headers={"Location": target})
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return answer
        if not self._is_token(_cookies(headers.get("cookie", "")).get(self._cookie, "")):
            return Response(
                "Open the whole address that 'beliefrag view' printed: it holds a key.", 403, media_type="text/plain"
            )
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _spends(self, given: str, method: str) -> bool:
        if method != "GET" or self._once is None or not hmac.compare_digest(given.encode(), self._once.encode()):
            return False
        self._once = None
        return True


def _cookies(header: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}
