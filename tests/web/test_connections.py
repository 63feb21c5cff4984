"""Connections that send nothing, half a header or two lengths, and clients that do not read."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.web.limits import ServerLimits
from tests.support.serving import QUESTION, Served, opened, raw_post, served, wait_for

WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = WHOLE[:-2] + b"X-Slow: "


ASK = raw_post("/v1/ask", {"question": QUESTION})


@contextlib.contextmanager
def flood(server: Served, number: int, data: bytes = HALF, source: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """Open connections that never finish their request."""
    port = int(server.url.rpartition(":")[2])
    opened: list[socket.socket] = []
    try:
        for _ in range(number):
            connection = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(source, 0))
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


@pytest.mark.parametrize(
    ("first", "then"),
    [(b"", b""), (HALF, b""), (HALF, b"a"), (WHOLE, b""), (WHOLE, HALF)],
    ids=["silent", "half", "drip", "idle", "half-after-whole"],
)
def test_a_connection_without_a_whole_header_is_closed_after_a_time(tmp_path: Path, first: bytes, then: bytes) -> None:
    with served(*opened(tmp_path), limits=ServerLimits(header_seconds=0.5)) as server:
        # The library has a time of its own; ours must do without.
        server.server.config.timeout_keep_alive = 3600
        with flood(server, 3, first) as connections:
            for connection in connections:
                if first == WHOLE:
                    assert connection.recv(1000).startswith(b"HTTP/1.1 200")
                give_up = time.monotonic() + 10
                while not is_closed(connection, 0.05):
                    assert time.monotonic() < give_up
                    with contextlib.suppress(OSError):
                        connection.sendall(then)
        wait_for(lambda: len(server.server.connections) == 0)


def test_half_open_connections_of_a_client_make_room_for_its_next_request(tmp_path: Path) -> None:
    limits = ServerLimits(connections_per_client=20)
    with served(*opened(tmp_path), limits=limits) as server, flood(server, 100), server.client() as client:
        # Connections are taken in their order: whoever is answered now came after the flood.
        assert client.get("/healthz").status_code == 200
        assert len(server.server.connections) == 20
        assert server.ask().status_code == 200


def test_a_flood_from_one_address_leaves_the_others_room(tmp_path: Path) -> None:
    limits = ServerLimits(connections=20, connections_per_client=18)
    with (
        served(*opened(tmp_path), limits=limits) as server,
        flood(server, 5) as mine,
        flood(server, 40, source="127.0.0.2"),
        server.client() as client,
    ):
        assert client.get("/healthz").status_code == 200
        assert len(server.server.connections) == 20
        # The client with the most connections loses its oldest ones.
        mine[0].settimeout(0.2)
        with pytest.raises(TimeoutError):
            mine[0].recv(1)


def test_connections_that_serve_requests_are_never_closed_for_new_ones(tmp_path: Path) -> None:
    limits = ServerLimits(connections_per_client=2)
    with served(*opened(tmp_path, seconds=1.0), limits=limits) as server, flood(server, 2, ASK) as busy:
        wait_for(lambda: server.service.admission.in_flight == 2)
        with flood(server, 1) as (refused,):
            assert b"\r\nRetry-After: 5\r\n" in read_to_end(refused)
        assert all(connection.recv(100).startswith(b"HTTP/1.1 200") for connection in busy)


def test_each_of_many_streams_at_once_gets_a_response(tmp_path: Path) -> None:
    stream = raw_post("/v1/ask", {"question": QUESTION}, "Accept: text/event-stream", "Connection: close")
    limits = ServerLimits(connections_per_client=30, concurrency=20)
    with served(*opened(tmp_path, seconds=1), limits=limits) as server, flood(server, 100, stream) as connections:
        replies = [read_to_end(each) for each in connections]
    assert Counter(reply[:9] for reply in replies) == {b"HTTP/1.1 ": 100}
    statuses = {reply[9:12] for reply in replies}
    assert {b"200", b"503"} <= statuses <= {b"200", b"429", b"503"}
    assert all(b"retry-after: 5" in reply.lower() for reply in replies if reply[9:12] != b"200")


def test_requests_behind_one_that_is_being_answered_are_not_read(tmp_path: Path) -> None:
    data = memoryview(WHOLE * 2_000_000)
    with served(*opened(tmp_path, seconds=300)) as server, flood(server, 1, ASK) as (connection,):
        wait_for(lambda: server.model.inside == 1)
        connection.settimeout(3)
        taken = 0
        with contextlib.suppress(TimeoutError):
            while taken < len(data):
                taken += connection.send(data[taken : taken + 1_000_000])
        assert taken < len(data) / 2, "the system's buffers hold the rest"


def test_the_log_gets_one_line_a_minute_about_closed_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(*opened(tmp_path), limits=ServerLimits(connections_per_client=5)) as server, flood(server, 100):
        wait_for(lambda: len(server.server.connections) == 5)
    lines = [record for record in caplog.records if record.name == "beliefrag.web.server"]
    assert len(lines) == 1
    assert lines[0].fields["client_limit"] == 1  # type: ignore[attr-defined]
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of open files")
def test_a_server_that_may_open_few_files_still_answers_under_a_flood(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "travel.md").write_text("# Travel\n\nThe head of finance approves it.\n", encoding="utf-8")
    (tmp_path / "script.jsonl").write_text(json.dumps({"purpose": "answer", "reply": "x", "repeat": True}), "utf-8")
    command = [sys.executable, "-m", "beliefrag", "serve", "http", "--docs", str(tmp_path / "docs"), "--port", "0"]
    command += [
        "--model",
        f"scripted:{tmp_path / 'script.jsonl'}",
        "--set",
        "verifier=structured",
        "--set",
        "borrow=published",
    ]
    log = tmp_path / "log.jsonl"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *command],
            env={**os.environ, "BELIEFRAG_CACHE_DIR": str(tmp_path / "cache")},
            stderr=stderr,
        )
    try:
        wait_for(lambda: b'"listening"' in log.read_bytes() or process.poll() is not None, 120)
        (line,) = [line for line in log.read_text("utf-8").splitlines() if '"listening"' in line]
        address = json.loads(line)["address"]
        port = int(address.rpartition(":")[2])
        with contextlib.ExitStack() as stack:
            for _ in range(500):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                with contextlib.suppress(OSError):
                    connection.sendall(HALF)
            with urllib.request.urlopen(f"{address}/healthz", timeout=30) as response:
                assert response.status == 200
        said = log.read_bytes()
        assert len(said) < 5_000 and b"Traceback" not in said
        assert b"out_of_files" not in said, "half of the files are left for everything else"
    finally:
        process.terminate()
        process.wait(60)


def test_requests_that_are_not_http_fill_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    with served(*opened(tmp_path)) as server, flood(server, 20, b"\x16\x03\x01 no http\r\n\r\n") as connections:
        assert all(connection.recv(100).startswith(b"HTTP/1.1 400") for connection in connections)
        with flood(server, 3, upgrade) as upgrading:
            assert all(connection.recv(100).startswith(b"HTTP/1.1 200") for connection in upgrading)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_client_that_does_not_read_is_let_go_and_its_episode_ends(tmp_path: Path) -> None:
    limits = ServerLimits(stall_seconds=0.5, heartbeat=0.001)
    with served(*opened(tmp_path, seconds=300), limits=replace(limits, timeout=300)) as server:
        port = int(server.url.rpartition(":")[2])
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", port))
        with reader:
            reader.sendall(raw_post("/v1/ask", {"question": QUESTION}, "Accept: text/event-stream"))
            wait_for(lambda: server.service.admission.in_flight == 1)
            big = b": " + b"x" * 1_000_000 + b"\n\n"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("beliefrag.web.http.episodes.HEARTBEAT", big)
                wait_for(lambda: server.service.admission.in_flight == 0, 30)
        assert server.model.inside == 0


@pytest.mark.parametrize(
    "framing", ["Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 0"]
)
def test_two_lengths_are_refused_and_the_connection_is_closed(tmp_path: Path, framing: str) -> None:
    second = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    request = f"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n0\r\n\r\n{second}"
    with served(*opened(tmp_path)) as server, flood(server, 1, request.encode()) as (one,):
        received = read_to_end(one)
    assert received.startswith(b"HTTP/1.1 400") and received.count(b"HTTP/1.1") == 1


def read_to_end(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(OSError):
        while data := connection.recv(65_536):
            received += data
    return received


@pytest.mark.parametrize(
    "head",
    [
        HALF + b"x" * 200_000,
        b"GET /" + b"x" * 200_000,
        b"GET /healthz HTTP/1.1\r\n" + b"X-Many: 1\r\n" * 20_000,
        b"\r\n" * 100_000,
    ],
)
def test_a_header_without_an_end_is_refused_and_not_kept(tmp_path: Path, head: bytes) -> None:
    with served(*opened(tmp_path)) as server, flood(server, 1, head) as (one,):
        received = read_to_end(one)
        wait_for(lambda: len(server.server.connections) == 0)
    # A client that is still sending may see the connection closed before it reads why.
    assert received == b"" or received.startswith(b"HTTP/1.1 400")


def test_a_pipelined_request_waits_for_the_answer_to_the_one_before(tmp_path: Path) -> None:
    last = WHOLE[:-2] + b"Connection: close\r\n\r\n"
    with served(*opened(tmp_path, seconds=0.2)) as server, flood(server, 1, 3 * ASK + last) as (pipelining,):
        received = read_to_end(pipelining)
        assert server.model.most_inside == 1
    assert received.count(b"HTTP/1.1 200") == 4
    assert received.index(b'"answered"') < received.index(b'{"status":"ok"}')


def test_bytes_that_come_after_an_early_refusal_fill_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    head = b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with served(*opened(tmp_path), token="a-token-of-some-length") as server, flood(server, 1, head) as (one,):
        assert one.recv(100).startswith(b"HTTP/1.1 401")
        one.sendall(b"this is no chunk\r\n" * 100)
        read_to_end(one)
        wait_for(lambda: len(server.server.connections) == 0)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
