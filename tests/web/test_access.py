"""No token, no access; and on loopback no request that was meant for another name."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from beliefrag.errors import SettingsError
from beliefrag.web.auth import is_loopback, read_token
from tests.support.serving import QUESTION, Served, opened, served

TOKEN = "t0ken-that-nobody-guesses"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(*opened(tmp_path_factory.mktemp("locked")), token=TOKEN, allowed_hosts=("rag.example",)) as server:
        yield server


ROUTES = [
    ("POST", "/v1/ask"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/openapi.json"),
    ("GET", "/nowhere"),
]


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN]
)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_without_the_token_there_is_no_access(locked: Served, method: str, path: str, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    with locked.client() as client:
        response = client.request(method, path, json={"question": QUESTION}, headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert locked.model.asked == 0


def test_with_the_token_everything_is_there(locked: Served) -> None:
    with locked.client(headers={"Authorization": f"bearer {TOKEN}"}) as client:
        assert client.get("/v1/models").status_code == 200
        assert client.get("/openapi.json").status_code == 200
        assert client.get("/nowhere").status_code == 404


def test_health_needs_no_token_and_tells_nothing(locked: Served) -> None:
    with locked.client() as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").json() == {"status": "ready", "model": True, "index": True}


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8080", "", "localhost.evil.example", "[::2]:80", "::1"),
        *("localhost:80@evil.com", "[::1]evil.com", "[::1]:80@evil.com", "localhost:", "localhost:x", "evil@localhost"),
        *("localhost/evil.com", "localhost:80:80", "localhost evil.com", "[localhost]"),
    ],
)
def test_on_loopback_another_host_name_is_refused(locked: Served, host: str) -> None:
    with locked.client() as client:
        response = client.get("/healthz", headers={"Host": host})
    assert response.status_code == 421


@pytest.mark.parametrize(("names", "status"), [((), 200), (("rag.example",), 421)])
def test_elsewhere_names_count_once_some_are_given(tmp_path: Path, names: tuple[str, ...], status: int) -> None:
    with (
        served(*opened(tmp_path), token=TOKEN, host="192.0.2.1", allowed_hosts=names) as server,
        server.client(headers={"Host": "other.example"}) as client,
    ):
        assert client.get("/healthz").status_code == status


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:8080", "rag.example"])
def test_on_loopback_its_own_names_are_fine(locked: Served, host: str) -> None:
    with locked.client() as client:
        assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/../../etc/passwd",
        "/v1/models/..%2f..%2fetc%2fpasswd",
        "/v1/models/%2e%2e/%2e%2e/etc/passwd",
        "/v1/models/..%5c..%5cetc",
        "/v1/models/beliefrag/../beliefrag",
        "/v1/models/beliefrag%00",
        "/../etc/passwd",
        "/v1/../openapi.json",
        "//etc/passwd",
    ],
)
def test_a_path_that_climbs_finds_nothing(plain: Served, path: str) -> None:
    """Sent over a bare socket: clients tidy such paths up before they send them."""
    url = httpx2.URL(plain.url)
    with socket.create_connection((url.host, url.port or 0), timeout=60) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"root:" not in answer


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LocalHost"])
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(host)
    for other in ("0.0.0.0", "::", "192.168.1.4", "rag.example", ""):
        assert not is_loopback(other)


def test_a_token_comes_from_a_file_or_else_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BELIEFRAG_TOKEN", raising=False)
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    assert read_token(None, "127.0.0.1") is None
    assert read_token(file, "0.0.0.0") == TOKEN
    monkeypatch.setenv("BELIEFRAG_TOKEN", "another-long-enough-token")
    assert read_token(None, "0.0.0.0") == "another-long-enough-token"
    assert read_token(file, "127.0.0.1") == TOKEN


@pytest.mark.parametrize("content", ["", "short", "with spaces in the middle of it", "ünïcödé-but-long-enough"])
def test_a_weak_or_broken_token_is_refused_and_not_shown(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"at least 16 .*token_urlsafe") as caught:
        read_token(file, "127.0.0.1")
    assert not content or content not in str(caught.value)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_token(tmp_path / "none", "127.0.0.1")
