"""A stand-in for the hub on loopback: real HTTP with ranges, redirects and connections that break."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from beliefrag.models.weights import HubFile, Weights

CONTENT = bytes(range(256)) * 12_000
PATH = "/owner/model/resolve/main/model.gguf"
WEIGHTS = Weights(
    name="tiny",
    model="Tiny, Q4_0",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    licence="Apache-2.0",
    purpose="tests",
    hub=HubFile("owner/model", "model.gguf"),
)


@dataclass
class Request:
    method: str
    path: str
    start: int
    token: str | None


@dataclass
class Behaviour:
    """What the server does, and what it was asked."""

    content: bytes = CONTENT
    status: int = 0
    ranges: bool = True
    redirect: str = ""
    break_after: list[int] = field(default_factory=list)
    """Bytes after which to drop the connection, one entry for each GET to come."""
    pause: float = 0.0
    requests: list[Request] = field(default_factory=list)

    @property
    def downloads(self) -> list[Request]:
        return [request for request in self.requests if request.method == "GET"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, behaviour: Behaviour, *args: object) -> None:
        self.behaviour = behaviour
        super().__init__(*args)  # type: ignore[arg-type]

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        behaviour = self.behaviour
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        behaviour.requests.append(Request(self.command, self.path, start, self.headers.get("Authorization")))
        if behaviour.redirect:
            self.head(302, 0, Location=behaviour.redirect + "?signature=very-secret")
        elif behaviour.status or self.path.split("?")[0] != PATH:
            self.head(behaviour.status or 404, 0)
        else:
            partially = behaviour.ranges and start > 0
            data = behaviour.content[start if partially else 0 :]
            self.head(206 if partially else 200, len(data))
            if body:
                self.send(data, behaviour.break_after.pop(0) if behaviour.break_after else len(data))

    def head(self, status: int, length: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()

    def send(self, data: bytes, most: int) -> None:
        step = 64 * 1024
        for at in range(0, min(most, len(data)), step):
            self.wfile.write(data[at : min(at + step, most)])
            time.sleep(self.behaviour.pause)
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


def serve(servers: list[ThreadingHTTPServer], behaviour: Behaviour) -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, behaviour))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    servers.append(server)
    return f"http://127.0.0.1:{server.server_port}"
