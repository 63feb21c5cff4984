"""A server without a model name: its one model is asked, several are listed, and anything else is one clear error."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from beliefrag.cli import options
from beliefrag.errors import SettingsError
from beliefrag.models.server_models import choose_server_model

Serve = Callable[[int, bytes], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server that gives this reply to GET /v1/models."""
    servers: list[HTTPServer] = []

    def start(status: int, body: bytes) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status if self.path == "/v1/models" else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/v1"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def models(*names: object) -> bytes:
    return json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()


def test_the_one_model_of_a_server_is_asked(serve: Serve) -> None:
    url = serve(200, models("qwen"))
    assert choose_server_model(url) == "qwen"
    assert options.read_settings(options.ModelOptions(base_url=url), config=None).model == "qwen"
    named = options.read_settings(options.ModelOptions(base_url=url, model="other"), config=None)
    assert named.model == "other"


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, models("a", "b"), "2 models: a, b"),
        (200, models(), "has no model"),
        (200, models(7, "\x1b[31m"), "has no model"),
        (200, b"[1]", "no list of models"),
        (200, b"<html>", "does not say"),
        (500, b"{}", "status 500"),
        (200, b" " * 5_000_000, "larger than 4 MB"),
    ],
)
def test_anything_else_is_one_clear_line(serve: Serve, status: int, body: bytes, told: str) -> None:
    with pytest.raises(SettingsError) as raised:
        choose_server_model(serve(status, body))
    assert told in str(raised.value) and "--model" in str(raised.value) and "\n" not in str(raised.value)


def test_a_server_that_is_not_there_is_told_without_its_password() -> None:
    with pytest.raises(SettingsError) as raised:
        choose_server_model("http://me:secret@127.0.0.1:9/v1")
    assert "127.0.0.1" in str(raised.value) and "secret" not in str(raised.value)
