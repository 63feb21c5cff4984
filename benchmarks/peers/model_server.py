"""Serves the embedded model's weights in the form of OpenAI's chat completions, and counts what they are used for.

Peers talk to a server. This one calls llama.cpp in its own process, one request after the other, with tools where a
request has any, at temperature 0, and keeps the tokens of every call.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["ModelServer", "serve_weights"]

_LONGEST_REPLY = 512
_CONTEXT = 6144


@dataclass
class ModelServer:
    """A running server, and what was asked of it since `reset`."""

    url: str = ""
    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)

    def reset(self) -> None:
        """Begins to count anew."""
        self.calls = self.tokens = 0
        self.seconds = 0.0
        self.errors = []


@contextmanager
def serve_weights(weights: Path, *, threads: int) -> Iterator[ModelServer]:
    """Loads the weights and serves them on a loopback port for the length of a `with` block."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import xllamacpp  # noqa: PLC0415 - heavy, and read after the variable above is set

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.n_ctx = _CONTEXT
    parameters.n_parallel = 1
    parameters.n_batch = parameters.n_ubatch = 128
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.use_jinja = True
    parameters.ctx_shift = False
    parameters.warmup = False
    parameters.verbosity = 0
    engine = xllamacpp.Server(parameters)
    counts = ModelServer()
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body |= {"temperature": 0, "stream": False}
            body["max_tokens"] = min(body.get("max_tokens") or _LONGEST_REPLY, _LONGEST_REPLY)
            body.pop("max_completion_tokens", None)
            started = time.monotonic()
            status = 200
            with turn:
                try:
                    reply: dict[str, Any] = engine.handle_chat_completions(body)
                    usage = reply.get("usage") or {}
                    counts.tokens += int(usage.get("total_tokens", 0))
                except (RuntimeError, ValueError, TypeError) as error:
                    status, reply = 400, {"error": {"message": str(error)[:300], "type": "invalid_request_error"}}
                    counts.errors.append(str(error)[:300])
            counts.calls += 1
            counts.seconds += time.monotonic() - started
            sent = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
            """Says nothing: results go to standard output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    counts.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield counts
    finally:
        server.shutdown()
        server.server_close()
