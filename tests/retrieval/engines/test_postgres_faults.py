"""PostgreSQL is killed while it is filled, its network stalls, and its table changes: nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from beliefrag.errors import BeliefRAGError, CorpusError, RetrievalError, SettingsError
from beliefrag.retrieval import Bm25Index, index_paths
from beliefrag.retrieval.engines.engine_retriever import EngineRetriever
from beliefrag.retrieval.engines.postgres import PostgresOptions, PostgresTable
from beliefrag.retrieval.indexing import IndexProgress, index_paths_to
from beliefrag.types import Passage
from tests.support.engines import PostgresEngine, fill
from tests.support.postgres import PostgresServer, run_postgres

KILLS = 20
FILES = 12


def write_documents(folder: Path, count: int, *, edition: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        lines = "\n\n".join(f"River {number} has bridge {line} and tower {line * number}." for line in range(40))
        text = f"# Book {number}\n\n{lines}\n\nEdition {edition} of book {number}.\n"
        (folder / f"{number:03}.md").write_text(text, encoding="utf-8")
    return folder


def test_a_server_that_is_killed_while_it_is_filled_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beliefrag.retrieval.engines.filling.BatchSession.batch", 5)
    monkeypatch.setattr("beliefrag.retrieval.engines.filling.ATTEMPTS", 1)
    chance = random.Random(16)
    told: list[str] = []
    with run_postgres() as server:
        url = server.database_with("pg_search")
        to = f"postgres:url={url},table=killed"
        for edition in range(KILLS):
            # Every file changes, so that every run has all of them to write; it is killed somewhere among them.
            documents = write_documents(tmp_path / "docs", FILES, edition=edition)
            at, wait = chance.randrange(FILES), chance.uniform(0, 0.03)
            killers: list[threading.Timer] = []

            def kill_here(progress: IndexProgress, at: int = at, wait: float = wait) -> None:
                if progress.files_done >= at and not killers:  # noqa: B023
                    killers.append(threading.Timer(wait, server.kill))  # noqa: B023
                    killers[0].start()  # noqa: B023

            try:
                index_paths_to(documents, to, progress=kill_here)
            except BeliefRAGError as error:
                told.append(str(error))
            killers[0].join()
            server.start()
        report = index_paths_to(documents, to)
        expected = index_paths(documents, tmp_path / "index", names=False)
        assert (report.fingerprint, report.passages_total) == (expected.fingerprint, expected.passages_total)
        assert len(told) > KILLS / 2, "most kills must fall into the work"
        assert all("\n" not in line for line in told)
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*), count(DISTINCT id) FROM killed").fetchone()
        assert row == (expected.passages_total, expected.passages_total)
        retriever = EngineRetriever(PostgresTable(PostgresOptions(url=url, table="killed")))
        embedded = Bm25Index.open(tmp_path / "index")
        for query in ("river 7 bridge 3", f"edition {KILLS - 1} of book 3"):
            assert [hit.passage.id for hit in retriever.search(query, 5)] == [
                hit.passage.id for hit in embedded.search(query, 5)
            ]
        retriever.close()


def test_a_server_that_comes_back_is_written_on_without_a_second_run(tmp_path: Path) -> None:
    documents = write_documents(tmp_path / "docs", 30)
    with run_postgres() as server:
        url = server.database_with("pg_search")

        killed: list[bool] = []

        def kill_and_start(progress: IndexProgress) -> None:
            if progress.files_done == 10 and not killed:
                killed.append(True)
                server.kill()
                server.start()

        report = index_paths_to(documents, f"postgres:url={url},table=revived", progress=kill_and_start)
        assert killed
        assert report.fingerprint == index_paths(documents, tmp_path / "index", names=False).fingerprint


def test_a_client_that_is_killed_leaves_a_table_that_the_next_run_completes(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    documents = write_documents(tmp_path / "docs", 60)
    url = postgres.database_with("pg_textsearch")
    program = (
        "import sys; from beliefrag.retrieval.engines.filling import BatchSession; BatchSession.batch = 20\n"
        "from beliefrag.retrieval.indexing import index_paths_to; index_paths_to(sys.argv[1], sys.argv[2])"
    )
    to = f"postgres:url={url},table=client_killed"
    for wait in (1.0, 1.5, 2.0):
        process = subprocess.Popen([sys.executable, "-c", program, str(documents), to])
        time.sleep(wait)
        process.kill()
        process.wait()
    deadline = time.monotonic() + 20
    while True:
        try:
            report = index_paths_to(documents, to)
            break
        except CorpusError:
            # The server has not yet noticed that the client is gone.
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert report.fingerprint == index_paths(documents, tmp_path / "index", names=False).fingerprint


class Proxy:
    """Passes bytes on to a server until it is told to hold them back."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.holds = threading.Event()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                while self.holds.is_set():
                    time.sleep(0.05)
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.holds.clear()
        self._listener.close()
        for each in self._sockets:
            each.close()


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    proxy = Proxy(postgres.port)
    yield proxy
    proxy.close()


def test_a_network_that_stalls_ends_a_search_in_one_line(postgres: PostgresServer, proxy: Proxy) -> None:
    engine = PostgresEngine(postgres, "pg_search")
    fill(engine, [Passage("a", "", "the river")])
    through = engine.url.replace(str(postgres.port), str(proxy.port))
    options = PostgresOptions(url=through, table=engine.options.table, timeout=1.0)
    retriever = EngineRetriever(PostgresTable(options))
    assert len(retriever.search("river", 1)) == 1
    proxy.holds.set()
    began = time.monotonic()
    with pytest.raises(RetrievalError, match=r"did not reply|connection|timeout") as stalled:
        retriever.search("river", 1)
    assert "\n" not in str(stalled.value)
    assert time.monotonic() - began < 30
    proxy.holds.clear()
    assert len(retriever.search("river", 1)) == 1
    retriever.close()


def test_a_lost_connection_is_made_again(postgres: PostgresServer) -> None:
    engine = PostgresEngine(postgres, "pg_search")
    fill(engine, [Passage("a", "", "the river")])
    retriever = engine.open()
    retriever.search("river", 1)
    with psycopg.connect(engine.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'beliefrag' AND pid <> pg_backend_pid() AND datname = current_database()"
        )
    assert len(retriever.search("river", 1)) == 1
    retriever.close()


@pytest.mark.parametrize("extension", ["pg_search", "pg_textsearch"])
def test_a_table_of_ones_own_is_searched_by_its_columns(postgres: PostgresServer, extension: str) -> None:
    url, table = postgres.database_with(extension), f"wiki_{extension}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (page int PRIMARY KEY, head text, body text, link text)")
        connection.execute(
            f"INSERT INTO {table} VALUES (1, 'Fram', 'A ship of Nansen', 'w/1'), (2, 'Maud', 'Another vessel', NULL)"
        )
        if extension == "pg_search":
            connection.execute(f"CREATE INDEX ON {table} USING bm25 (page, head, body) WITH (key_field = 'page')")
        else:
            connection.execute(f"CREATE INDEX ON {table} USING bm25 (body) WITH (text_config = 'english')")
    options = PostgresOptions(url=url, table=table, id="page", title="head", text="body", source="link")
    retriever = EngineRetriever(PostgresTable(options))
    assert [hit.passage for hit in retriever.search("ship; DROP TABLE x", 5)] == [
        Passage("1", "Fram", "A ship of Nansen", "w/1")
    ]
    assert retriever.get(["2"]) == [Passage("2", "Maud", "Another vessel", "")]
    assert extension in retriever.identity
    before = retriever.fingerprint
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"INSERT INTO {table} VALUES (3, 'Gjoa', 'A ship of Amundsen', NULL)")
    deadline = time.monotonic() + 30
    # The server's count of changes comes a little after the change.
    with pytest.raises(RetrievalError, match="changed during the run"):
        while time.monotonic() < deadline:
            retriever.search("ship", 5)
            time.sleep(0.2)
    retriever.close()
    again = EngineRetriever(PostgresTable(options))
    assert again.fingerprint != before
    again.close()


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match="PGPASSWORD") as refused:
        PostgresTable(PostgresOptions(url="postgresql://me:swordfish@localhost/db"))
    assert "swordfish" not in str(refused.value)


def test_a_server_that_is_not_there_is_named_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://me@127.0.0.1:{taken.getsockname()[1]}/db"
        with pytest.raises(RetrievalError, match="refused") as missing:
            PostgresTable(PostgresOptions(url=url))
    assert "\n" not in str(missing.value)
