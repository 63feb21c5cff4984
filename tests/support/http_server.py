"""A real HTTP server on loopback that plays a script of good and bad chat completions.

Faults are made of real bytes on a real socket, so a test sees what a user of a broken server would see.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Response:
    """What to send back."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delay: float = 0.0
    """Seconds to wait before answering."""
    drip: float = 0.0
    """Seconds to wait before each byte of the body."""
    close: bool = False
    """Close the connection instead of answering."""
    cut: int = 0
    """Close the connection when so many bytes of the body are still to come."""
    surplus: bytes = b""
    """What is sent behind the body."""


Play = Response | Callable[[Request], Response]


def completion(
    text: str | None = "Paris",
    *,
    message: Mapping[str, Any] | None = None,
    finish: str = "stop",
    logprobs: Any = None,
    usage: Mapping[str, Any] | None = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
    **how: Any,
) -> Response:
    """Return a completion as OpenAI's documentation shows it, or with what is asked to be different."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **(message or {})},
        "finish_reason": finish,
    }
    if logprobs is not None:
        choice["logprobs"] = logprobs
    body: dict[str, Any] = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    if usage is not None:
        body["usage"] = usage
    return Response(json.dumps(body).encode(), **how)


def failure(status: int, message: str = "", *, code: str | None = None, **headers: str) -> Response:
    """Return an error with a status, in OpenAI's form. Header names are given with underscores."""
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    return Response(json.dumps(body).encode(), status, {k.replace("_", "-"): v for k, v in headers.items()})


class ChatServer:
    """Plays one response per request, in order, then the last one again and again. Keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._plays: list[Play] = [completion()]
        self.open = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def use_tls(self, certificate: Path) -> None:
        """Speak TLS from now on, with a new certificate that is written to a file."""
        key, name, now = ec.generate_private_key(ec.SECP256R1()), x509.Name([]), datetime.now(UTC)
        made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        secret = key.private_bytes(serialization.Encoding.PEM, *form)
        signed = made.add_extension(names, critical=True).sign(key, hashes.SHA256())
        certificate.write_bytes(secret + signed.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        scheme = "https" if isinstance(self._server.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://{self.host}/v1"

    def play(self, *plays: Play) -> None:
        """Set what comes next."""
        with self._lock:
            self._plays = list(plays)

    def stop(self) -> None:
        """Go down: from now on connections are refused. Calling it twice is harmless."""
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _next(self, request: Request) -> Response:
        with self._lock:
            self.requests.append(request)
            self.open += 1
            self.most_at_once = max(self.most_at_once, self.open)
            play = self._plays.pop(0) if len(self._plays) > 1 else self._plays[0]
        return play(request) if callable(play) else play

    def _done(self) -> None:
        with self._lock:
            self.open -= 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                response = server._next(Request(self.path, headers, body))
                try:
                    self._send(response)
                except OSError:
                    self.close_connection = True
                finally:
                    server._done()

            def _send(self, response: Response) -> None:
                server._stopping.wait(response.delay)
                if response.close or server._stopping.is_set():
                    self.close_connection = True
                    return
                self.send_response(response.status)
                for name, value in response.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", response.content_type)
                self.send_header("Content-Length", str(len(response.body)))
                self.end_headers()
                body = response.body[: len(response.body) - response.cut] + response.surplus
                for start in range(0, len(body), 1 if response.drip else len(body) or 1):
                    server._stopping.wait(response.drip)
                    self.wfile.write(body[start : start + 1] if response.drip else body)
                self.close_connection = self.close_connection or bool(response.cut)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Log nothing: a test's output is its own."""

        return Handler
