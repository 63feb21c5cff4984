"""The server: who may read, what is found, and what is not there."""

from __future__ import annotations

import http.client
import socket
import sys
from collections.abc import Iterator

import httpx2
import pytest

from beliefrag.web.auth import PAGE_POLICY
from beliefrag.web.view import RunSource, ViewError, ViewServer
from tests.support.messages import mentions
from tests.support.viewing import client
from tests.web.view.conftest import Played


@pytest.fixture(scope="module")
def server(played: Played) -> Iterator[ViewServer]:
    with ViewServer(RunSource(played.run, [played.data])) as running:
        yield running


@pytest.fixture(scope="module")
def known(server: ViewServer) -> Iterator[httpx2.Client]:
    with client(server) as opened:
        yield opened


def bare(server: ViewServer, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    """Return a request exactly as written: no path is tidied up on the way."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest(method, path, skip_host="host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def key(known: httpx2.Client) -> str:
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in known.cookies.jar)


def test_without_the_key_nothing_is_given(server: ViewServer) -> None:
    for path in ("/", "/episodes", "/api/run", "/api/episode/1", "/assets/app.js", "/?token=wrong", "/?token=%C3%A9"):
        assert bare(server, path).status == 403, path
    assert bare(server, "/api/run", cookie="beliefrag_view_1=nonsense; =; broken").status == 403


def test_the_printed_address_gives_a_cookie_that_scripts_and_other_sites_cannot_use(server: ViewServer) -> None:
    path = server.key.address.removeprefix(f"http://127.0.0.1:{server.port}")
    answer = bare(server, path)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize(
    "path", ["/\\evil.com/", "//evil.com/", "/%5Cevil.com/", "/%5c/evil.com", "/\\\\evil.com", "/%2Fevil.com"]
)
def test_the_redirect_with_the_key_stays_on_this_server(server: ViewServer, path: str) -> None:
    token = server.key.address.partition("?")[2]
    assert bare(server, f"{path}?{token}").getheader("location") == "/"


def test_the_address_on_the_browsers_command_line_works_once(played: Played) -> None:
    with ViewServer(RunSource(played.run, [played.data])) as server:
        path = server.key.address_once.removeprefix(f"http://127.0.0.1:{server.port}")
        assert bare(server, path, "HEAD").status == 403
        first = bare(server, path)
        assert first.status == 303
        assert bare(server, path).status == 403
        assert bare(server, "/api/run", cookie=first.headers["set-cookie"].partition(";")[0]).status == 200


def test_a_foreign_name_that_points_here_is_refused(server: ViewServer, known: httpx2.Client) -> None:
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1", ""):
        assert bare(server, "/api/run", host=host, cookie=key(known)).status == 421, host
    assert bare(server, "/api/run", host=f"localhost:{server.port}", cookie=key(known)).status == 200


def test_nothing_can_be_changed(server: ViewServer, known: httpx2.Client) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert bare(server, "/api/run", method, cookie=key(known)).status == 405


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one address of loopback")
def test_the_server_listens_on_one_address_of_loopback(server: ViewServer) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=5)


@pytest.mark.parametrize(
    "path", ["/", "/episodes", "/episode/1", "/compare/1/2", "/api/run", "/assets/app.js", "/nowhere"]
)
def test_every_answer_has_the_strict_policy(known: httpx2.Client, path: str) -> None:
    headers = known.get(path).headers
    assert headers["content-security-policy"] == PAGE_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert "unsafe" not in PAGE_POLICY
    assert "script-src 'self'" in PAGE_POLICY


@pytest.mark.parametrize(
    "path",
    [
        *("/episode/../1", "/episode/../../etc/passwd", "/episode/..%2f..%2fetc%2fpasswd", "/episode/%2e%2e/1"),
        *("/api/episode/../run", "/api/episode/..%2f..%2f..%2fetc%2fpasswd", "/api/episode/1/../2", "/api/episode/%00"),
        *("/assets/../app.py", "/assets/..%2fapp.py", "/assets/%2e%2e%2f%2e%2e%2f__init__.py", "/assets//etc/passwd"),
        *("/compare/../1/2", "/compare/1/..%2f2", "/episode/-1", "/episode/1e3", "/episode/0x1", "/episode/%201"),
        *("/episode/999999", "/episode/99999999999999999999999999", "/api/episode/1/prompts", "/compare/1/999999"),
        *("/episode/1/export", "/docs", "/openapi.json", f"/episode/{'9' * 5000}"),
    ],
)  # fmt: skip
def test_an_id_that_leads_elsewhere_gives_404(server: ViewServer, known: httpx2.Client, path: str) -> None:
    assert bare(server, path, cookie=key(known)).status == 404


def test_the_run_is_given_with_its_intervals_and_failures(known: httpx2.Client) -> None:
    run = known.get("/api/run").json()
    assert run["first_line"].startswith("INCOMPLETE: 1 failed")
    assert [len(failure["question_ids"]) for failure in run["failures"]] == [1]
    cell = next(cell for cell in run["cells"] if (cell["dataset"], cell["method"]) == ("north", "static"))
    assert cell["episodes"] == cell["asked"] == 4
    f1 = cell["measures"]["f1"]
    assert f1["low"] <= f1["value"] <= f1["high"]
    assert f1["has_few_questions"] is True


def test_episodes_are_listed_as_asked_and_wrong_questions_are_refused(known: httpx2.Client) -> None:
    page = known.get(
        "/api/episodes", params={"method": "beliefrag", "order": "tokens", "direction": "down", "limit": 2}
    )
    assert page.json()["total"] == 8
    tokens = [row["tokens"] for row in page.json()["episodes"]]
    assert len(tokens) == 2
    assert tokens == sorted(tokens, reverse=True)
    for wrong in ({"order": "nothing"}, {"limit": 0}, {"limit": 100_000}, {"offset": -1}):
        assert known.get("/api/episodes", params=wrong).status_code == 422, wrong


def test_a_port_that_is_taken_is_told(server: ViewServer, played: Played) -> None:
    source = RunSource(played.run)
    with pytest.raises(ViewError, match=f"port {server.port}.*--port"):
        ViewServer(source, server.port)
    source.close()


def test_without_its_dataset_a_run_can_be_viewed_and_says_what_is_lacking(played: Played) -> None:
    with ViewServer(RunSource(played.run)) as running, client(running) as known:
        episode = known.get("/api/episode/1").json()
        assert episode["question"] is None
        assert episode["gold"] is None
        assert "--data" in episode["notes"][0]


def test_an_error_of_our_own_is_told_in_the_page_and_on_the_terminal(
    played: Played, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    with ViewServer(RunSource(played.run)) as running, client(running) as known:
        monkeypatch.setattr("beliefrag.web.view.sources.RunSource.episode", broken)
        answer = known.get("/api/episode/1")
    assert answer.status_code == 500
    assert set(answer.json()) == {"error"}
    assert mentions(answer.json()["error"], "ZeroDivisionError: a mistake", "--debug")
    assert [record.name for record in caplog.records] == ["beliefrag.web.view.view_app"]
