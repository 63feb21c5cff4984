"""PostgreSQL is killed while it is filled, its network stalls, and its table changes: nothing is lost or doubled."""

from __future__ import annotations

import random
import socket
import threading
import time
from dataclasses import replace

import psycopg
import pytest

from beliefrag.errors import BeliefRAGError, RetrievalError, SettingsError
from beliefrag.retrieval import Bm25Index
from beliefrag.retrieval.engines.engine_retriever import EngineRetriever
from beliefrag.retrieval.engines.filling import fill
from beliefrag.retrieval.engines.postgres import PostgresOptions, PostgresTable
from beliefrag.types import Passage
from tests.support.engines import PostgresEngine
from tests.support.postgres import PostgresServer, run_postgres

KILLS = 8


def edition(number: int) -> list[Passage]:
    """Return passages that all change with each edition."""
    return [Passage(f"p{each:03}", f"Book {each}", f"River {each} of edition {number}.") for each in range(300)]


def test_a_server_that_is_killed_while_it_is_filled_loses_and_doubles_nothing() -> None:
    chance = random.Random(16)
    told: list[str] = []
    with run_postgres() as server:
        engine = PostgresEngine(server, "pg_search")
        engine.fill(edition(0))
        for number in range(1, KILLS):
            passages = edition(number)
            pages = [[(each, ("",)) for each in passages[low : low + 20]] for low in range(0, 300, 20)]
            at, wait = chance.randrange(1, 16) * 20, chance.uniform(0, 0.03)
            killers: list[threading.Timer] = []

            def kill_here(done: int, at: int = at, wait: float = wait) -> None:
                if done == at:
                    killers.append(threading.Timer(wait, server.kill))  # noqa: B023
                    killers[0].start()  # noqa: B023

            try:
                fill(engine.write(), pages, lambda _: True, kill_here)
            except BeliefRAGError as error:
                told.append(str(error))
            killers[0].join()
            server.start()
            held = engine.open()
            assert held.fingerprint in {Bm25Index.in_memory(edition(each)).fingerprint for each in range(number + 1)}
            held.close()
        assert len(told) > KILLS / 2, "most kills must fall into the work"
        assert all("\n" not in line for line in told)
        engine.fill(passages)
        with psycopg.connect(engine.options.url) as connection:
            row = connection.execute(f"SELECT count(*), count(DISTINCT id) FROM {engine.options.table}").fetchone()
        assert row == (300, 300)
        retriever, embedded = engine.open(), Bm25Index.in_memory(passages)
        assert retriever.fingerprint == embedded.fingerprint
        for query in ("river 7", f"edition {KILLS - 1} of book 3"):
            assert [hit.passage.id for hit in retriever.search(query, 5)] == [
                hit.passage.id for hit in embedded.search(query, 5)
            ]
        retriever.close()


def test_a_server_that_stalls_ends_a_search_in_one_line(postgres: PostgresServer) -> None:
    engine = PostgresEngine(postgres, "pg_search")
    engine.fill([Passage("a", "", "the river")])
    retriever = EngineRetriever(PostgresTable(replace(engine.options, timeout=1.0)))
    assert len(retriever.search("river", 1)) == 1
    began = time.monotonic()
    with postgres.paused(), pytest.raises(RetrievalError, match=r"did not reply|connection|timeout") as stalled:
        retriever.search("river", 1)
    assert "\n" not in str(stalled.value)
    assert time.monotonic() - began < 30
    assert len(retriever.search("river", 1)) == 1
    retriever.close()


def test_a_lost_connection_is_made_again(postgres: PostgresServer) -> None:
    engine = PostgresEngine(postgres, "pg_search")
    engine.fill([Passage("a", "", "the river")])
    retriever = engine.open()
    retriever.search("river", 1)
    with psycopg.connect(engine.options.url, autocommit=True) as connection:
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
