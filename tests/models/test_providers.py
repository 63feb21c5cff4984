"""A server without a model name: its one model is asked, several are listed, and anything else is one clear error."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from beliefrag import BeliefRAG, Passage
from beliefrag.cli.options import GivenSettings
from beliefrag.errors import SettingsError
from beliefrag.models.providers import describe_destination, use_server_model
from beliefrag.settings import DEFAULT_MODEL, Settings, load_settings

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
    assert GivenSettings({"base_url": url}, None).load().model == "qwen"
    named = GivenSettings({"base_url": url, "model": "other"}, None).load()
    assert named.model == "other"


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, models("a", "b"), "2 models: a, b"),
        (200, models(), "has no model"),
        (200, models(7, "\x1b[31m"), "has no model"),
        (200, b"[1]", "not a list of models"),
        (200, b"<html>", "does not list"),
        (500, b"{}", "status 500"),
        (200, b" " * 5_000_000, "larger than 4 MB"),
    ],
)
def test_anything_else_is_one_clear_line(serve: Serve, status: int, body: bytes, told: str) -> None:
    with pytest.raises(SettingsError) as raised:
        use_server_model(Settings(base_url=serve(status, body)))
    assert told in str(raised.value) and "--model" in str(raised.value) and "\n" not in str(raised.value)


def test_a_server_that_is_not_there_is_told_without_its_password() -> None:
    with pytest.raises(SettingsError) as raised:
        use_server_model(Settings(base_url="http://me:secret@127.0.0.1:9/v1"))
    assert "127.0.0.1" in str(raised.value) and "secret" not in str(raised.value)


def test_a_model_that_is_named_stays_and_no_server_is_asked() -> None:
    for named in (Settings(model="mine"), Settings(model=DEFAULT_MODEL, base_url="http://127.0.0.1:9/v1")):
        assert use_server_model(named) is named


def test_a_variable_that_may_be_set_for_other_programs_sends_no_documents_to_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert use_server_model(Settings()).model == DEFAULT_MODEL


@pytest.mark.parametrize(
    ("variables", "model"),
    [
        ({"OPENAI_MODEL": "m"}, DEFAULT_MODEL),
        ({"OPENAI_API_KEY": "k"}, DEFAULT_MODEL),
        ({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://there/v1"}, DEFAULT_MODEL),
        ({"OPENAI_MODEL": "m", "OPENAI_API_KEY": "k"}, "m"),
        ({"OPENAI_MODEL": "m", "OPENAI_BASE_URL": "http://there/v1"}, "m"),
        ({"OPENAI_MODEL": "m", "OPENAI_API_KEY": "k", "BELIEFRAG_MODEL": "ours"}, "ours"),
    ],
)
def test_a_key_or_an_address_alone_sends_nothing_and_with_a_model_they_are_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], model: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert GivenSettings({}, None).load().model == model
    Path("beliefrag.toml").write_text('model = "of the project"\n', encoding="utf-8")
    assert GivenSettings({}, None).load().model == (model if model == "ours" else "of the project")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (Settings(), None),
        (Settings(model="scripted:x.jsonl"), None),
        (Settings(model="m", base_url="http://localhost:8000/v1"), None),
        (Settings(model="m", base_url="http://127.0.0.9:8000/v1"), None),
        (Settings(model="m", base_url="http://[::1]:8000/v1"), None),
        (Settings(model="m"), "m at https://api.openai.com/v1"),
        (Settings(model="m", base_url="http://me:secret@10.0.0.1/v1?key=abc"), "m at http://10.0.0.1/v1"),
        (Settings(model="m", base_url="http://127.0.0.1.example.org/v1"), "m at http://127.0.0.1.example.org/v1"),
    ],
)
def test_it_is_said_where_passages_go_unless_they_stay_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, told: str | None
) -> None:
    assert describe_destination(Settings(model="m")) is None, "without a key there is nowhere to go"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-key")
    destination = describe_destination(settings)
    assert (destination is None) == (told is None)
    assert destination is None or (destination.startswith(f"{told} ") and "secret" not in destination)


def test_a_command_that_asks_no_model_asks_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_BASE_URL", "http://127.0.0.1:9/v1")
    assert load_settings().settings.model == DEFAULT_MODEL
    with pytest.raises(SettingsError, match="does not list its models"):
        GivenSettings({}, None).load()


@pytest.mark.parametrize("place", ["given", "variable", "file"])
def test_the_python_class_asks_the_one_model_of_a_server(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    url = serve(200, models("qwen"))
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    if place == "variable":
        monkeypatch.setenv("BELIEFRAG_BASE_URL", url)
    if place == "file":
        Path("beliefrag.toml").write_text(f'base_url = "{url}"\n', encoding="utf-8")
    given: dict[str, Any] = {"base_url": url} if place == "given" else {}
    with BeliefRAG(passages=[Passage("a", "", "a lighthouse")], method="static", **given) as rag:
        assert rag.settings.model == "qwen"
