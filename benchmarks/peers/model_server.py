"""Serves the embedded model's weights in the form of OpenAI's chat completions, and counts what they are used for.

Peers talk to a server. This one calls llama.cpp in its own process, one request after the other, with tools where a
request has any, at temperature 0, and keeps the tokens of every call. The chat template is that of the weights. A
request that llama.cpp refuses, such as one longer than the context, is refused with the status that llama.cpp gives it.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["ModelServer", "read_written_call", "serve_weights"]

_LONGEST_REPLY = 512
_CONTEXT = 6144
_CODE_BLOCK = re.compile(r"\s*```(?:json)?\s*(.*?)\s*```\s*", re.DOTALL)


@dataclass
class ModelServer:
    """A running server, and what was asked of it since `reset`."""

    url: str = ""
    calls: int = 0
    tokens: int = 0
    processor_seconds: float = 0.0
    """Unlike those on the clock, they are nearly the same on a busy machine."""
    errors: list[str] = field(default_factory=list)
    reads_written_calls: bool = False
    """Whether a tool call that the model wrote as JSON text counts as one. llama.cpp wants the form of the template."""

    resets: int = 0

    def reset(self) -> None:
        """Begin to count anew. A call that is still under way, whose client gave up, is not counted when it ends."""
        self.calls = self.tokens = 0
        self.processor_seconds = 0.0
        self.errors = []
        self.resets += 1

    def count(self, reply: Mapping[str, Any], processor_seconds: float, resets: int) -> None:
        """Count a call that began after so many resets."""
        if resets != self.resets:
            return
        self.calls += 1
        self.tokens += int((reply.get("usage") or {}).get("total_tokens", 0))
        self.processor_seconds += processor_seconds
        if "error" in reply:
            self.errors.append(str(reply["error"].get("message"))[:300])


def read_written_call(body: Mapping[str, Any], reply: dict[str, Any]) -> None:
    """Make a tool call of a reply that is nothing but one in JSON, in a code block or bare."""
    names = {each["function"]["name"] for each in body.get("tools") or ()}
    for choice in reply.get("choices") or ():
        message = choice["message"]
        text = message.get("content") or ""
        block = _CODE_BLOCK.fullmatch(text)
        try:
            written = json.loads(block[1] if block else text)
        except ValueError:
            continue
        if message.get("tool_calls") or not isinstance(written, dict) or written.get("name") not in names:
            continue
        function = {"name": written["name"], "arguments": json.dumps(written.get("arguments") or {})}
        call = {"id": f"call_{time.monotonic_ns()}", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
        choice["finish_reason"] = "tool_calls"


@contextmanager
def serve_weights(weights: Path, *, threads: int) -> Iterator[ModelServer]:
    """Load the weights and serve them on a loopback port for the length of a `with` block."""
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
    # The first question of the first peer must not pay for the first reading of the weights.
    parameters.warmup = True
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
            resets = counts.resets
            with turn:
                started = time.process_time()
                try:
                    reply: dict[str, Any] = engine.handle_chat_completions(body)
                except (RuntimeError, ValueError, TypeError) as error:
                    reply = {"error": {"message": str(error)[:300], "type": "invalid_request_error"}}
                counts.count(reply, time.process_time() - started, resets)
            status = int(reply["error"].get("code") or 400) if "error" in reply else 200
            if counts.reads_written_calls:
                read_written_call(body, reply)
            sent = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
            """Log nothing: results go to standard output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    counts.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield counts
    finally:
        server.shutdown()
        server.server_close()
