from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from beliefrag.errors import ReplayMiss, SettingsError
from beliefrag.models import postgres_replies
from beliefrag.models.postgres_replies import TABLE, PostgresReplyStore, StoreFailure
from beliefrag.models.protocol import ChatReply, ChatRequest, Message, TokenProbability
from beliefrag.models.reply_repair import repair_database
from beliefrag.models.reply_store import DamagedReplyError, ReplyStore, StoredReply, export_lines, import_lines
from beliefrag.models.with_cache import CachedModel
from tests.support.postgres import PostgresServer

REPLY = ChatReply(
    "Zürich\u2028\n\0 \ud800",
    tokens_in=12,
    tokens_out=3,
    seconds=1.25,
    counted_by="sevens-v1",
    tokens=(TokenProbability("Z", -0.1, (("Z", -0.1), ("B", -3.0))), TokenProbability("ürich", -9999.0)),
    cached=True,
    retries=2,
    wasted_tokens=40,
)
CHILD = """
import sys
from beliefrag.models.protocol import ChatReply
from beliefrag.models.postgres_replies import PostgresReplyStore

with PostgresReplyStore(sys.argv[1]) as store:
    print("open", flush=True)
    for n in range(int(sys.argv[3])):
        held = store.put(f"shared-{n}", "child", ChatReply(sys.argv[2], 1, 1, 0.0))
        store.put(f"{sys.argv[2]}-{n}", "child", ChatReply("x" * (n % 5000), 1, 1, 0.0))
        print(n, held.text, flush=True)
"""


@pytest.fixture
def address(postgres: PostgresServer) -> str:
    return postgres.new_database()


def child(address: str, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD, address, name, str(count)], stdout=subprocess.PIPE, text=True)


def test_a_reply_comes_back_whole_and_the_first_one_stays(address: str) -> None:
    with PostgresReplyStore(address) as store:
        assert store.get("k") is None
        assert store.put("k", "m", REPLY) == REPLY
        assert store.put("k", "m", replace(REPLY, text="later")) == REPLY
    with PostgresReplyStore(address) as store:
        assert store.get("k") == REPLY
        assert store.get("K") is None


def test_rows_and_seals_are_those_of_the_file(address: str, tmp_path: Path) -> None:
    stored = StoredReply("k" * 64, "model é", 1_700_000_000.123456, replace(REPLY, cached=False))
    with PostgresReplyStore(address) as database, ReplyStore(tmp_path / "r.sqlite") as file:
        assert database.add(stored)
        assert file.add(stored)
        assert list(database) == list(file)


def test_what_is_there_can_be_counted_listed_moved_and_deleted(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_replies, "_ROWS_AT_ONCE", 10)
    with PostgresReplyStore(address) as store:
        for number in range(41):
            reply = replace(REPLY, text=f"reply {number}")
            store.add(StoredReply(f"{number:064x}", f"m{number % 2}", 1000.0 + number // 2, reply))
        assert [each.key for each in store] == [f"{number:064x}" for number in range(41)]
        stats = store.stats()
        assert (stats.entries, stats.by_model) == (41, {"m0": 21, "m1": 20})
        assert stats.bytes > 8_000
        with ReplyStore(tmp_path / "moved.sqlite") as file:
            assert import_lines(export_lines(store, model="m0"), file).added == 21
        assert store.delete_older_than(1010.0) == 20
        assert store.stats().entries == 21


def test_writers_that_begin_at_the_same_moment_share_one_table_and_see_the_same_replies(address: str) -> None:
    children = [child(address, name, 40) for name in ("one", "two", "three")]
    said = [process.communicate(timeout=120)[0].splitlines()[1:] for process in children]
    assert [process.returncode for process in children] == [0, 0, 0]
    assert said[0] == said[1] == said[2]
    with PostgresReplyStore(address) as store:
        assert store.stats().entries == 40 * 4


def test_a_killed_writer_loses_no_reply_that_it_reported_as_stored(address: str) -> None:
    with child(address, "killed", 100_000) as process:
        assert process.stdout is not None
        last = 0
        for _ in range(random.randint(2, 200)):
            last = int((process.stdout.readline().split() or ["0"])[0].replace("open", "0"))
        process.send_signal(signal.SIGKILL)
    with PostgresReplyStore(address) as store:
        assert all(store.get(f"killed-{number}") is not None for number in range(last + 1))


def test_a_server_that_is_killed_and_started_again_is_waited_for(address: str, postgres: PostgresServer) -> None:
    with PostgresReplyStore(address) as store:
        store.put("before", "m", REPLY)
        postgres.kill()
        starting = threading.Timer(0.5, postgres.start)
        starting.start()
        try:
            assert store.put("after", "m", REPLY) == REPLY
        finally:
            starting.join()
        assert store.get("before") == REPLY
        assert store.get("after") == REPLY


def test_a_server_that_stays_away_is_a_failure_in_one_line(address: str, postgres: PostgresServer) -> None:
    with PostgresReplyStore(address, patience=1.0) as store:
        postgres.kill()
        try:
            with pytest.raises(StoreFailure, match=r"^[^\n]+$"):
                store.get("k")
            with pytest.raises(SettingsError, match="PGPASSWORD"):
                PostgresReplyStore(address)
        finally:
            postgres.start()


@contextmanager
def stalling_proxy(port: int) -> Iterator[tuple[int, threading.Event]]:
    """A way to the server that swallows everything while the event is set."""
    stalled = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    open_lines: list[socket.socket] = [listener]

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                while stalled.is_set():
                    time.sleep(0.01)
                target.sendall(data)
        except OSError:
            pass
        finally:
            for line in (source, target):
                line.close()

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", port))
            open_lines.extend((client, server))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1], stalled
    finally:
        stalled.clear()
        for line in open_lines:
            line.close()


def test_a_network_that_stalls_breaks_the_connection_and_a_new_one_goes_on(
    address: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_replies, "_STATEMENT_SECONDS", 0.5)
    with (
        stalling_proxy(postgres.port) as (port, stalled),
        PostgresReplyStore(address.replace(str(postgres.port), str(port))) as store,
    ):
        store.put("before", "m", REPLY)
        stalled.set()
        over = threading.Timer(1.0, stalled.clear)
        over.start()
        assert store.put("during", "m", REPLY).text == REPLY.text
        over.join()
        assert store.get("before") == REPLY
        assert store.stats().entries == 2


def test_an_edited_row_is_not_given_out_and_a_repair_removes_it_alone(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_replies, "_ROWS_AT_ONCE", 10)
    with PostgresReplyStore(address) as store:
        for number in range(30):
            store.put(f"k{number}", "m", REPLY)
        with psycopg.connect(address) as connection:
            connection.execute(f"UPDATE {TABLE} SET reply = replace(reply, 'rich', 'reich') WHERE key = 'k7'")
            connection.execute(f"UPDATE {TABLE} SET created = created + 1 WHERE key = 'k29'")
        with pytest.raises(DamagedReplyError):
            store.get("k7")
        report = repair_database(address)
        assert (report.kept, sorted(report.damaged)) == (28, ["k29", "k7"])
        assert store.get("k7") is None
        assert repair_database(address).damaged == []


def test_a_table_of_another_program_is_refused_and_left_alone(address: str) -> None:
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE TABLE {TABLE} (mine text)")
    with pytest.raises(SettingsError, match=TABLE):
        PostgresReplyStore(address)
    with psycopg.connect(address) as connection:
        assert connection.execute(f"SELECT * FROM {TABLE}").fetchall() == []


def test_reading_only_needs_a_table_and_never_writes(address: str) -> None:
    with pytest.raises(SettingsError, match="no reply cache"):
        PostgresReplyStore(address, read_only=True)
    with PostgresReplyStore(address) as store:
        store.put("k", "m", REPLY)
    with PostgresReplyStore(address, read_only=True) as store:
        assert store.get("k") == REPLY
        with pytest.raises(StoreFailure, match="read-only"):
            store.put("l", "m", REPLY)


class Model:
    identity = "m"

    def __init__(self) -> None:
        self.asked = 0

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.asked += 1
        return ChatReply(f"reply {self.asked}", 1, 1, 0.0)

    async def aclose(self) -> None:
        pass


async def test_a_model_answers_from_the_database_and_a_replay_from_it_alone(address: str) -> None:
    request = ChatRequest("answer", (Message("user", "hello"),))
    inner = Model()
    model = CachedModel(inner, address)
    first, second = await model.chat(request), await model.chat(request)
    await model.aclose()
    assert (first.text, second.text, second.cached, inner.asked) == ("reply 1", "reply 1", True, 1)
    replay = CachedModel(inner, address, replay=True)
    assert (await replay.chat(request)).text == "reply 1"
    with pytest.raises(ReplayMiss):
        await replay.chat(replace(request, max_tokens=7))
    await replay.aclose()
    assert (inner.asked, len(replay.missing_keys)) == (1, 1)
