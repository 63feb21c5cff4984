"""Connections that send nothing, half a header or two lengths, and clients that do not read."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.web.connections import ConnectionRegistry
from beliefrag.web.limits import ServerLimits
from tests.support.serving import QUESTION, Served, opened, served, wait_for

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


@contextlib.contextmanager
def flood(server: Served, number: int, data: bytes = HALF, source: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """Opens connections that never finish their request."""
    port = int(server.url.rpartition(":")[2])
    opened: list[socket.socket] = []
    try:
        for _ in range(number):
            connection = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(source, 0))
            opened.append(connection)
            with contextlib.suppress(OSError):
                connection.sendall(data)
        yield opened
    finally:
        for connection in opened:
            connection.close()


def is_closed(connection: socket.socket, seconds: float = 10.0) -> bool:
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def registry(server: Served) -> ConnectionRegistry:
    return server.server._connections


@pytest.mark.parametrize("data", [b"", HALF])
def test_a_connection_without_a_whole_header_is_closed_after_a_time(tmp_path: Path, data: bytes) -> None:
    with served(*opened(tmp_path), limits=ServerLimits(header_seconds=0.3)) as server:
        with flood(server, 3, data) as connections:
            for connection in connections:
                assert is_closed(connection)
        wait_for(lambda: len(registry(server)) == 0)


def test_bytes_that_drip_in_do_not_extend_the_time_for_a_header(tmp_path: Path) -> None:
    with served(*opened(tmp_path), limits=ServerLimits(header_seconds=0.5)) as server, flood(server, 1) as (slow,):
        give_up = time.monotonic() + 10
        with pytest.raises(OSError):
            while time.monotonic() < give_up:
                slow.sendall(b"a")
                time.sleep(0.05)


def test_half_a_header_after_an_answered_request_is_not_waited_for_either(tmp_path: Path) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        served(*opened(tmp_path), limits=ServerLimits(header_seconds=0.5)) as server,
        flood(server, 1, whole) as (one,),
    ):
        assert one.recv(1000).startswith(b"HTTP/1.1 200")
        one.sendall(HALF)
        while data := one.recv(1000):
            assert data


def test_half_open_connections_of_a_client_make_room_for_its_next_request(tmp_path: Path) -> None:
    limits = ServerLimits(connections_per_client=20)
    with served(*opened(tmp_path), limits=limits) as server, flood(server, 100), server.client() as client:
        assert len(registry(server)) <= 20
        assert client.get("/healthz").status_code == 200
        assert server.ask().status_code == 200


def test_a_flood_from_one_address_leaves_the_others_room(tmp_path: Path) -> None:
    limits = ServerLimits(connections=20, connections_per_client=18)
    with (
        served(*opened(tmp_path), limits=limits) as server,
        flood(server, 5) as mine,
        flood(server, 40, source="127.0.0.2"),
    ):
        assert len(registry(server)) <= 20
        # The client with the most connections loses its oldest ones.
        mine[0].settimeout(0.2)
        with pytest.raises(TimeoutError):
            mine[0].recv(1)


def test_connections_that_serve_requests_are_never_closed_for_new_ones(tmp_path: Path) -> None:
    body = json.dumps({"question": QUESTION}).encode()
    head = (
        "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    limits = ServerLimits(connections_per_client=2)
    with (
        served(*opened(tmp_path, seconds=1.0), limits=limits) as server,
        flood(server, 2, head.encode() + body) as busy,
    ):
        wait_for(lambda: server.service.admission.in_flight == 2)
        with flood(server, 1) as (refused,):
            assert is_closed(refused)
        assert all(connection.recv(100).startswith(b"HTTP/1.1 200") for connection in busy)


def test_the_log_gets_one_line_a_minute_about_closed_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(*opened(tmp_path), limits=ServerLimits(connections_per_client=5)) as server, flood(server, 100):
        wait_for(lambda: len(registry(server)) == 5)
    lines = [record for record in caplog.records if record.name == "beliefrag.web.connections"]
    assert len(lines) == 1
    assert lines[0].fields["client_limit"] == 1  # type: ignore[attr-defined]
    assert not [record for record in caplog.records if record.exc_info]


def test_requests_that_are_not_http_fill_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    with served(*opened(tmp_path)) as server, flood(server, 20, b"\x16\x03\x01 no http\r\n\r\n") as connections:
        assert all(connection.recv(100).startswith(b"HTTP/1.1 400") for connection in connections)
        with flood(server, 3, upgrade) as upgrading:
            assert all(connection.recv(100).startswith(b"HTTP/1.1 200") for connection in upgrading)
    lines = [record for record in caplog.records if record.name.startswith(("uvicorn", "beliefrag.web.connections"))]
    assert [record.fields["not_http"] for record in lines] == [1]  # type: ignore[attr-defined]


def test_a_client_that_does_not_read_is_let_go_and_its_episode_ends(tmp_path: Path) -> None:
    body = json.dumps({"question": QUESTION}).encode()
    head = (
        "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    limits = ServerLimits(stall_seconds=0.5, heartbeat=0.001)
    with served(*opened(tmp_path, seconds=300), limits=replace(limits, timeout=300)) as server:
        port = int(server.url.rpartition(":")[2])
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", port))
        with reader:
            reader.sendall(head.encode() + body)
            wait_for(lambda: server.service.admission.in_flight == 1)
            big = b": " + b"x" * 1_000_000 + b"\n\n"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("beliefrag.web.http.ask.HEARTBEAT", big)
                wait_for(lambda: server.service.admission.in_flight == 0, 30)
        assert server.model.inside == 0


@pytest.mark.parametrize(
    "framing", ["Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 0"]
)
def test_two_lengths_are_refused_and_the_connection_is_closed(tmp_path: Path, framing: str) -> None:
    second = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    request = f"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n0\r\n\r\n{second}"
    with served(*opened(tmp_path)) as server, flood(server, 1, request.encode()) as (one,):
        received = b""
        with contextlib.suppress(OSError):
            while data := one.recv(1000):
                received += data
    assert received.startswith(b"HTTP/1.1 400") and received.count(b"HTTP/1.1") == 1


def test_the_registry_forgets_closed_connections() -> None:
    limits = ServerLimits(connections_per_client=1)
    known = ConnectionRegistry(limits)

    class Fake:
        address, is_waiting, aborted = "a", True, False

        def abort(self) -> None:
            self.aborted = True

    first, second = Fake(), Fake()
    assert known.admit(first) and known.admit(second)  # type: ignore[arg-type]
    assert first.aborted and len(known) == 1
    known.remove(second)  # type: ignore[arg-type]
    assert len(known) == 0
